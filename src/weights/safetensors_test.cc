#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>

#include "base/json.h"
#include "weights/safetensors_reader.h"
#include "weights/safetensors_writer.h"

namespace isobit {
namespace {

Result<SafetensorsFile> ParseText(const std::string& bytes) {
  auto copy = std::make_shared<std::vector<std::byte>>(
      reinterpret_cast<const std::byte*>(bytes.data()),
      reinterpret_cast<const std::byte*>(bytes.data()) + bytes.size());
  return ParseSafetensors(*copy, copy, "small.safetensors");
}

std::string File(std::string_view header, std::size_t data_bytes) {
  const std::uint64_t size = header.size();
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof size);
  bytes += header;
  for (std::size_t i = 0; i < data_bytes; ++i) bytes += static_cast<char>(i);
  return bytes;
}

constexpr char kSmall[] =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"I32","shape":[2],"data_offsets":[12,20]},)"
    R"("a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]}})";

TEST(SafetensorsReader, ReadsTensorsSortedByName) {
  const auto file = ParseText(File(kSmall, 20));
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  ASSERT_EQ(file->tensors.size(), 2u);
  EXPECT_EQ(file->tensors[0].name, "a");
  EXPECT_EQ(file->tensors[0].dtype, DType::kBF16);
  EXPECT_EQ(file->tensors[0].shape, (Shape{2, 3}));
  EXPECT_EQ(file->tensors[0].data.size(), 12u);
  EXPECT_EQ(file->tensors[0].data[0], std::byte{0});
  EXPECT_EQ(file->tensors[1].dtype, DType::kI32);
  EXPECT_EQ(file->tensors[1].data[0], std::byte{12});
  EXPECT_EQ(file->metadata.at("format"), "pt");
}

TEST(SafetensorsReader, AllowsScalarsEmptyTensorsAndTrailingSpaces) {
  const auto file = ParseText(File(R"({"e":{"dtype":"F32","shape":[0,5],"data_offsets":[4,4]},)"
                                   R"("s":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )",
                                   4));
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  EXPECT_EQ(file->tensors[0].shape, (Shape{0, 5}));
  EXPECT_EQ(file->tensors[0].data.size(), 0u);
  EXPECT_EQ(file->tensors[1].shape, Shape{});
  EXPECT_TRUE(ParseText(File("{}", 0)).ok());
}

TEST(SafetensorsReader, CopiesWhatItsElementsCannotBeReadFrom) {
  // One byte in front puts every f32 off its alignment, wherever the header ends.
  const auto file = ParseText(File(R"({"b":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},)"
                                   R"("f":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})",
                                   9));
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  const TensorView& f = file->tensors[1];
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(f.data.data()) % sizeof(float), 0u);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(f.data[i], static_cast<std::byte>(i + 1));
}

struct HostileCase {
  const char* name;
  ErrorCode code;
  const char* field;
  const char* message;
  std::string bytes;
};

void PrintTo(const HostileCase& c, std::ostream* out) { *out << c.name; }

std::string OneTensor(std::string_view entry, std::size_t data_bytes = 4) {
  return File(fmt::format("{{\"t\":{}}}", entry), data_bytes);
}

std::vector<HostileCase> HostileCases() {
  constexpr auto kCorrupt = ErrorCode::kCorrupt;
  const char* const file = "small.safetensors";
  return {
      {"empty", kCorrupt, file, "0 bytes", ""},
      {"seven_bytes", kCorrupt, file, "7 bytes", std::string(7, '\0')},
      {"header_size_0", kCorrupt, file, "does not begin with '{'", std::string(8, '\0')},
      {"header_size_max", kCorrupt, file, "18446744073709551615", std::string(8, '\xFF') + "{}"},
      {"header_size_one_more", kCorrupt, file, "claims a header of 3 bytes",
       std::string("\3\0\0\0\0\0\0\0{}", 10)},
      {"header_size_above_file", kCorrupt, file, "claims a header of 1099511627776 bytes",
       std::string("\0\0\0\0\0\1\0\0{}", 10)},
      {"not_json", kCorrupt, file, "not valid JSON", File("{]", 0)},
      {"two_values", kCorrupt, file, "not valid JSON", File("{}{}", 0)},
      {"leading_space", kCorrupt, file, "does not begin with '{'", File(" {}", 0)},
      {"not_utf8", kCorrupt, file, "not valid JSON", File("{\"\xFF\":1}", 0)},
      {"a_list", kCorrupt, file, "does not begin with '{'", File("[]", 0)},
      {"tensor_is_number", kCorrupt, "t", "a number", OneTensor("5")},
      {"tensor_is_null", kCorrupt, "t", "null", OneTensor("null")},
      {"tensor_is_list", kCorrupt, "t", "an array", OneTensor("[1]")},
      {"deep_lists", kCorrupt, "t", "an array",
       OneTensor("{\"shape\":" + std::string(100000, '[') + std::string(100000, ']') + "}")},
      {"name_empty", kCorrupt, file, "tensor name is empty",
       File(R"({"":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4)},
      {"name_with_escape", kCorrupt, file, "control character",
       File(R"({"\u001b[2J":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4)},
      {"name_twice", kCorrupt, "t", "appears twice",
       File(
           R"({"t":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},"t":{"dtype":"I8","shape":[1],"data_offsets":[1,2]}})",
           2)},
      {"metadata_twice", kCorrupt, "__metadata__", "appears twice",
       File(R"({"__metadata__":{},"__metadata__":{}})", 0)},
      {"metadata_key_twice", kCorrupt, "__metadata__", "twice",
       File(R"({"__metadata__":{"a":"1","a":"2"}})", 0)},
      {"metadata_number", kCorrupt, "__metadata__", "a number",
       File(R"({"__metadata__":{"a":1}})", 0)},
      {"metadata_object", kCorrupt, "__metadata__", "an object",
       File(R"({"__metadata__":{"a":{}}})", 0)},
      {"field_twice", kCorrupt, "t", "\"shape\" twice",
       OneTensor(R"({"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]})")},
      {"field_unknown", kCorrupt, "t", "\"strides\"",
       OneTensor(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4],"strides":[1]})")},
      {"no_dtype", kCorrupt, "t", "no \"dtype\"",
       OneTensor(R"({"shape":[1],"data_offsets":[0,4]})")},
      {"no_shape", kCorrupt, "t", "no \"shape\"",
       OneTensor(R"({"dtype":"F32","data_offsets":[0,4]})")},
      {"no_offsets", kCorrupt, "t", "data_offsets", OneTensor(R"({"dtype":"F32","shape":[1]})")},
      {"one_offset", kCorrupt, "t", "data_offsets",
       OneTensor(R"({"dtype":"F32","shape":[1],"data_offsets":[0]})")},
      {"three_offsets", kCorrupt, "t", "more than 2 numbers",
       OneTensor(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4,8]})")},
      {"dtype_number", kCorrupt, "t", "a number in \"dtype\"",
       OneTensor(R"({"dtype":1,"shape":[1],"data_offsets":[0,4]})")},
      {"dtype_f64", ErrorCode::kUnsupported, "t", "F64 is not supported",
       OneTensor(R"({"dtype":"F64","shape":[1],"data_offsets":[0,8]})", 8)},
      {"dtype_f8", ErrorCode::kUnsupported, "t", "F8_E4M3 is not supported",
       OneTensor(R"({"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]})")},
      {"shape_negative", kCorrupt, "t", "a negative number in \"shape\"",
       OneTensor(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})")},
      {"shape_fraction", kCorrupt, "t", "no integer",
       OneTensor(R"({"dtype":"F32","shape":[1.0],"data_offsets":[0,4]})")},
      {"shape_text", kCorrupt, "t", "a string in \"shape\"",
       OneTensor(R"({"dtype":"F32","shape":["1"],"data_offsets":[0,4]})")},
      {"shape_rank_9", kCorrupt, "t", "more than 8 numbers",
       OneTensor(R"({"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]})")},
      {"shape_wraps_to_1", kCorrupt, "t", "63 bits",
       OneTensor(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]})")},
      {"shape_2_64", kCorrupt, "t", "63 bits",
       OneTensor(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]})")},
      {"bytes_wrap", kCorrupt, "t", "63 bits",
       OneTensor(R"({"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,4]})")},
      {"extent_too_short", kCorrupt, "t", "holds 4 bytes, but F32 [2] needs 8",
       OneTensor(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})")},
      {"extent_backwards", kCorrupt, "t", "backwards",
       OneTensor(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})")},
      {"extent_behind_the_end", kCorrupt, "t", "behind the 4 bytes",
       OneTensor(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})")},
      {"extent_max", kCorrupt, "t", "a hole",
       OneTensor(
           R"({"dtype":"F32","shape":[1],"data_offsets":[18446744073709551611,18446744073709551615]})")},
      {"bytes_behind", kCorrupt, file, "1 bytes behind its last tensor",
       OneTensor(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})", 5)},
      {"hole_in_front", kCorrupt, "t", "a hole",
       OneTensor(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})", 8)},
      {"overlap", kCorrupt, "u", "inside the tensor before it",
       File(
           R"({"t":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},"u":{"dtype":"I8","shape":[4],"data_offsets":[2,6]}})",
           6)},
      {"same_extent", kCorrupt, "u", "inside the tensor before it",
       File(
           R"({"t":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},"u":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})",
           4)},
      {"hole_between", kCorrupt, "u", "a hole",
       File(
           R"({"t":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},"u":{"dtype":"I8","shape":[4],"data_offsets":[5,9]}})",
           9)},
  };
}

class SafetensorsHostile : public testing::TestWithParam<HostileCase> {};

TEST_P(SafetensorsHostile, IsRefusedByName) {
  const HostileCase& c = GetParam();
  const auto file = ParseText(c.bytes);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(ErrorCodeName(file.error().code), std::string(ErrorCodeName(c.code)));
  EXPECT_EQ(file.error().field, c.field);
  EXPECT_NE(file.error().message.find(c.message), std::string::npos) << file.error().message;
}

INSTANTIATE_TEST_SUITE_P(All, SafetensorsHostile, testing::ValuesIn(HostileCases()),
                         [](const testing::TestParamInfo<HostileCase>& info) {
                           return std::string(info.param.name);
                         });

TEST(SafetensorsReader, EveryTruncationFails) {
  const std::string whole = File(kSmall, 20);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto file = ParseText(whole.substr(0, size));
    ASSERT_FALSE(file.ok()) << size;
    EXPECT_EQ(file.error().code, ErrorCode::kCorrupt) << size;
  }
}

TEST(SafetensorsReader, AWideHeaderCostsLinearTime) {
  std::string header = "{";
  for (int i = 0; i < 50000; ++i) {
    header += fmt::format("{}\"t{}\":{{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[{},{}]}}",
                          i > 0 ? "," : "", i, i, i + 1);
  }
  const auto file = ParseText(File(header + "}", 50000));
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  EXPECT_EQ(file->tensors.size(), 50000u);
}

TensorView View(std::string name, DType dtype, Shape shape, std::span<const std::byte> data) {
  return {std::move(name), dtype, std::move(shape), data, nullptr};
}

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  const std::vector<float> f = {1.5f, -2.0f, 3.0f, 4.0f, 5.0f, 6.0f};
  const std::vector<std::int64_t> ids = {7, -8};
  const std::vector<std::int8_t> small = {1, 2, 3};
  const std::vector<TensorView> tensors = {
      View("small", DType::kI8, {3}, std::as_bytes(std::span(small))),
      View("lo\"gits", DType::kF32, {2, 3}, std::as_bytes(std::span(f))),
      View("ids", DType::kI64, {2}, std::as_bytes(std::span(ids)))};
  const auto bytes = SafetensorsBytes(tensors, {{"contract", "abc"}, {"quote", "\"\n"}});
  ASSERT_TRUE(bytes.ok()) << bytes.error().ToString();
  std::uint64_t header_size = 0;
  std::memcpy(&header_size, bytes->data(), 8);
  EXPECT_EQ(header_size % 8, 0u);
  const auto file = ParseText(*bytes);
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  ASSERT_EQ(file->tensors.size(), 3u);
  EXPECT_EQ(file->metadata,
            (std::map<std::string, std::string>{{"contract", "abc"}, {"quote", "\"\n"}}));
  EXPECT_EQ(file->tensors[0].name, "ids");
  EXPECT_EQ(file->tensors[1].name, "lo\"gits");
  EXPECT_EQ(file->tensors[1].shape, (Shape{2, 3}));
  EXPECT_EQ(std::memcmp(file->tensors[0].data.data(), ids.data(), 16), 0);
  EXPECT_EQ(std::memcmp(file->tensors[1].data.data(), f.data(), 24), 0);
  EXPECT_EQ(std::memcmp(file->tensors[2].data.data(), small.data(), 3), 0);
  // Equal tensors in another order are the same file.
  EXPECT_EQ(*SafetensorsBytes({tensors[2], tensors[0], tensors[1]},
                              {{"contract", "abc"}, {"quote", "\"\n"}}),
            *bytes);
}

TEST(SafetensorsWriter, AnEmptyListIsAFile) {
  const auto bytes = SafetensorsBytes({});
  ASSERT_TRUE(bytes.ok());
  EXPECT_TRUE(ParseText(*bytes)->tensors.empty());
}

TEST(SafetensorsWriter, WritesAFile) {
  const std::string path = testing::TempDir() + "/isobit_writer_test.safetensors";
  const std::vector<float> f = {1.0f};
  ASSERT_TRUE(
      WriteSafetensors(path, {View("x", DType::kF32, {1}, std::as_bytes(std::span(f)))}).ok());
  const auto mapped = MappedFile::Open(path);
  ASSERT_TRUE(mapped.ok());
  const auto file = ReadSafetensors(*mapped);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->tensors[0].name, "x");
  EXPECT_EQ(std::remove(path.c_str()), 0);
}

TEST(SafetensorsWriter, RefusesWhatTheFormatCannotSay) {
  const std::vector<std::byte> block(34);
  const auto quantized = SafetensorsBytes({View("q", DType::kQ8_0, {1, 32}, block)});
  ASSERT_FALSE(quantized.ok());
  EXPECT_EQ(quantized.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(quantized.error().field, "q");
  EXPECT_NE(quantized.error().message.find("q8_0"), std::string::npos);
  const TensorView x = View("x", DType::kI8, {34}, block);
  EXPECT_EQ(SafetensorsBytes({x, x}).error().field, "x");
  EXPECT_EQ(SafetensorsBytes({View("__metadata__", DType::kI8, {34}, block)}).error().code,
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace isobit
