// Server-sent events: the framing of a streamed answer.
#pragma once

#include <string>
#include <string_view>

namespace isobit {

inline constexpr std::string_view kSseContentType = "text/event-stream; charset=utf-8";
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";
inline constexpr std::string_view kSseKeepAlive = ": waiting\n\n";  // a comment: clients skip it

// One event. json has no line breaks: the writer escapes them.
std::string SseEvent(std::string_view json);

}  // namespace isobit
