#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace isobit {
namespace {

Error SystemError(const std::string& path, const char* what) {
  const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
  return Fail(code, path, "{}: {}", what, std::strerror(errno));
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return SystemError(path, "cannot open");
  struct stat info;
  if (fstat(file.fd, &info) != 0) return SystemError(path, "cannot stat");
  if (!S_ISREG(info.st_mode)) return Fail(ErrorCode::kInvalidArgument, path, "is not a regular file");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile(path, nullptr, 0));
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) return SystemError(path, "cannot map");
  return std::shared_ptr<const MappedFile>(new MappedFile(path, static_cast<const std::byte*>(data), size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

Result<std::string> ReadFile(const std::string& path, std::size_t max_bytes) {
  Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return SystemError(path, "cannot open");
  std::string content;
  char buffer[65536];
  for (;;) {
    const ssize_t count = read(file.fd, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(path, "cannot read");
    if (count == 0) return content;
    content.append(buffer, static_cast<std::size_t>(count));
    if (content.size() > max_bytes) return Fail(ErrorCode::kInvalidArgument, path, "is larger than {} bytes", max_bytes);
  }
}

Status WriteFile(const std::string& path, std::string_view content) {
  const std::string part = path + ".part";
  {
    Descriptor file{open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
    if (file.fd < 0) return SystemError(path, "cannot write");
    std::size_t done = 0;
    while (done < content.size()) {
      const ssize_t count = write(file.fd, content.data() + done, content.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return SystemError(path, "cannot write");
      done += static_cast<std::size_t>(count);
    }
  }
  if (std::rename(part.c_str(), path.c_str()) != 0) return SystemError(path, "cannot write");
  return {};
}

}  // namespace isobit
