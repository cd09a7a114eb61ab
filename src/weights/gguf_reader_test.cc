#include "weights/gguf_reader.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>

#include "weights/gguf_builder.h"

namespace isobit {
namespace {

Result<GgufFile> ParseText(const std::string& bytes) {
  // A heap copy of exactly the file's size, so that the address sanitizer sees a read beyond it.
  auto copy = std::make_shared<std::vector<std::byte>>(
      reinterpret_cast<const std::byte*>(bytes.data()),
      reinterpret_cast<const std::byte*>(bytes.data()) + bytes.size());
  return ParseGguf(*copy, copy, "small.gguf");
}

std::vector<float> Ramp(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}

// One key and two tensors whose sizes are multiples of the alignment, so that no byte of the file
// is padding behind the data.
GgufBuilder SmallFile() {
  const std::vector<float> a = Ramp(16), b = Ramp(8);
  GgufBuilder builder;
  builder.AddString("general.architecture", "llama");
  builder.AddTensor("a.weight", DType::kF32, {2, 8}, std::as_bytes(std::span(a)));
  builder.AddTensor("b.weight", DType::kF32, {8}, std::as_bytes(std::span(b)));
  return builder;
}

constexpr std::uint32_t Code(GgufValueType type) { return static_cast<std::uint32_t>(type); }

TEST(GgufReader, ReadsEveryValueType) {
  GgufBuilder builder;
  builder.AddRaw("u8", 0, ByteWriter().Number<std::uint8_t>(200).Take())
      .AddRaw("i8", 1, ByteWriter().Number<std::int8_t>(-100).Take())
      .AddRaw("u16", 2, ByteWriter().Number<std::uint16_t>(60000).Take())
      .AddRaw("i16", 3, ByteWriter().Number<std::int16_t>(-30000).Take())
      .AddU32("u32", 4000000000u)
      .AddI32("i32", -2000000000)
      .AddF32("f32", 1e-5f)
      .AddBool("yes", true)
      .AddBool("no", false)
      .AddString("text", "Grüße \xF0\x9F\x98\x80")
      .AddString("empty", "")
      .AddU64("u64", std::numeric_limits<std::uint64_t>::max())
      .AddRaw("i64", 11, ByteWriter().Number(std::numeric_limits<std::int64_t>::min()).Take())
      .AddRaw("f64", 12, ByteWriter().Number(0.1).Take())
      .AddStrings("texts", {"a", "", "b c"})
      .AddI32s("numbers", {1, -2, 3})
      .AddI32s("none", {})
      .AddRaw("nested", 9,
              ByteWriter()
                  .Type(GgufValueType::kArray)
                  .Number<std::uint64_t>(2)
                  .Type(GgufValueType::kU8)
                  .Number<std::uint64_t>(2)
                  .Number<std::uint8_t>(1)
                  .Number<std::uint8_t>(2)
                  .Type(GgufValueType::kString)
                  .Number<std::uint64_t>(1)
                  .String("x")
                  .Take());
  const auto file = ParseText(builder.Bytes());
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  EXPECT_EQ(
      DumpJson(file->metadata),
      "{\"u8\":200,\"i8\":-100,\"u16\":60000,\"i16\":-30000,\"u32\":4000000000,\"i32\":-2000000000,"
      "\"f32\":9.999999747378752e-06,\"yes\":true,\"no\":false,\"text\":\"Grüße "
      "\xF0\x9F\x98\x80\",\"empty\":\"\","
      "\"u64\":18446744073709551615,\"i64\":-9223372036854775808,\"f64\":0.1,\"texts\":[\"a\",\"\","
      "\"b c\"],"
      "\"numbers\":[1,-2,3],\"none\":[],\"nested\":[[1,2],[\"x\"]]}");
  EXPECT_EQ(file->version, 3u);
  EXPECT_EQ(file->alignment, 32u);
  EXPECT_TRUE(file->tensors.empty());
}

TEST(GgufReader, ReadsTensorsInFileOrderOutermostDimensionFirst) {
  for (const std::uint32_t version : {2u, 3u}) {
    GgufBuilder builder = SmallFile();
    builder.version = version;
    const auto file = ParseText(builder.Bytes());
    ASSERT_TRUE(file.ok()) << file.error().ToString();
    EXPECT_EQ(file->version, version);
    ASSERT_EQ(file->tensors.size(), 2u);
    EXPECT_EQ(file->tensors[0].name, "a.weight");
    EXPECT_EQ(file->tensors[0].shape, (Shape{2, 8}));
    EXPECT_EQ(file->tensors[1].shape, (Shape{8}));
    ASSERT_EQ(file->tensors[0].data.size(), 64u);
    const auto* values = reinterpret_cast<const float*>(file->tensors[0].data.data());
    EXPECT_EQ(values[0], 0.0f);
    EXPECT_EQ(values[15], 15.0f);
  }
}

TEST(GgufReader, ReadsEverySupportedTensorType) {
  struct Case {
    DType dtype;
    std::size_t bytes;  // of 64 values
  };
  for (const Case& c : {Case{DType::kF32, 256},
                        {DType::kF16, 128},
                        {DType::kBF16, 128},
                        {DType::kQ8_0, 68},
                        {DType::kQ4_0, 36},
                        {DType::kQ4_1, 40}}) {
    GgufBuilder builder;
    builder.AddTensor("t", c.dtype, {2, 32}, std::vector<std::byte>(c.bytes, std::byte{7}));
    const auto file = ParseText(builder.Bytes());
    ASSERT_TRUE(file.ok()) << file.error().ToString();
    EXPECT_EQ(file->tensors[0].dtype, c.dtype);
    EXPECT_EQ(file->tensors[0].data.size(), c.bytes);
  }
}

TEST(GgufReader, ObeysTheFilesAlignment) {
  for (const std::uint32_t alignment : {8u, 24u, 64u, 4096u}) {
    GgufBuilder builder = SmallFile();
    builder.AddU32("general.alignment", alignment);
    builder.alignment = alignment;
    const auto file = ParseText(builder.Bytes());
    ASSERT_TRUE(file.ok()) << alignment << ": " << file.error().ToString();
    EXPECT_EQ(file->alignment, alignment);
    EXPECT_EQ(reinterpret_cast<const float*>(file->tensors[1].data.data())[7], 7.0f);
  }
}

TEST(GgufReader, TensorsMayLieInAnyOrderAndTheLastNeedsNoPadding) {
  GgufBuilder builder = SmallFile();
  builder.tensors[1].data = std::string(20, '\1');
  builder.tensors[1].dims = {5};
  std::string padded = builder.Bytes();
  ASSERT_TRUE(ParseText(padded).ok());
  padded.resize(padded.size() - 12);
  ASSERT_TRUE(ParseText(padded).ok());
  padded.resize(padded.size() - 1);
  EXPECT_FALSE(ParseText(padded).ok());

  GgufBuilder swapped = SmallFile();
  swapped.tensors[0].offset = 32;
  swapped.tensors[1].offset = 0;
  const auto file = ParseText(swapped.Bytes());
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  EXPECT_EQ(file->tensors[0].name, "a.weight");
  EXPECT_EQ(file->tensors[0].data.data(), file->tensors[1].data.data() + 32);
}

struct HostileCase {
  const char* name;
  ErrorCode code;
  const char* field;
  const char* message;  // a part of it
  std::function<std::string()> bytes;
};

void PrintTo(const HostileCase& c, std::ostream* out) { *out << c.name; }

std::string WithArray(std::uint32_t type, std::uint64_t count, const std::string& elements = "") {
  return SmallFile()
      .AddRaw("list", 9, ByteWriter().Number(type).Number(count).Raw(elements).Take())
      .Bytes();
}

std::string WithAlignment(std::uint32_t alignment) {
  return SmallFile().AddU32("general.alignment", alignment).Bytes();
}

// SmallFile with its first tensor changed.
std::string WithTensor(const std::function<void(GgufTensor&)>& change) {
  GgufBuilder builder = SmallFile();
  change(builder.tensors[0]);
  return builder.Bytes();
}

std::string WithType(std::uint32_t type) {
  return WithTensor([&](GgufTensor& tensor) { tensor.type = type; });
}

std::string WithDims(std::vector<std::uint64_t> dims) {
  return WithTensor([&](GgufTensor& tensor) { tensor.dims = std::move(dims); });
}

std::string NestedArrays(int depth) {
  ByteWriter value;
  for (int i = 1; i < depth; ++i) value.Type(GgufValueType::kArray).Number<std::uint64_t>(1);
  value.Type(GgufValueType::kU8).Number<std::uint64_t>(1).Number<std::uint8_t>(1);
  return SmallFile().AddRaw("deep", 9, value.Take()).Bytes();
}

const std::vector<HostileCase>& HostileCases() {
  constexpr auto kCorrupt = ErrorCode::kCorrupt;
  constexpr auto kUnsupported = ErrorCode::kUnsupported;
  static const std::vector<HostileCase> cases = {
      // The header.
      {"empty_file", kCorrupt, "small.gguf", "the magic", [] { return std::string(); }},
      {"three_bytes", kCorrupt, "small.gguf", "the magic", [] { return std::string("GGU"); }},
      {"other_magic", kCorrupt, "small.gguf", "not a GGUF file",
       [] {
         auto b = SmallFile();
         b.magic = "GGML";
         return b.Bytes();
       }},
      {"version_0", kUnsupported, "small.gguf", "version 0",
       [] {
         auto b = SmallFile();
         b.version = 0;
         return b.Bytes();
       }},
      {"version_1", kUnsupported, "small.gguf", "version 1",
       [] {
         auto b = SmallFile();
         b.version = 1;
         return b.Bytes();
       }},
      {"version_4", kUnsupported, "small.gguf", "version 4",
       [] {
         auto b = SmallFile();
         b.version = 4;
         return b.Bytes();
       }},
      {"big_endian", kUnsupported, "small.gguf", "big-endian",
       [] {
         auto b = SmallFile();
         b.version = 3u << 24;
         return b.Bytes();
       }},
      {"header_alone", kCorrupt, "small.gguf", "the tensor count",
       [] { return SmallFile().Bytes().substr(0, 8); }},
      {"tensor_count_2_60", kCorrupt, "small.gguf", "claims 1152921504606846976 tensors",
       [] {
         auto b = SmallFile();
         b.num_tensors = 1ull << 60;
         return b.Bytes();
       }},
      {"tensor_count_below_the_limit", kCorrupt, "small.gguf", "claims 60000 tensors",
       [] {
         auto b = SmallFile();
         b.num_tensors = 60000;
         return b.Bytes();
       }},
      {"key_count_below_the_limit", kCorrupt, "small.gguf", "claims 4000 metadata keys",
       [] {
         auto b = SmallFile();
         b.num_keys = 4000;
         return b.Bytes();
       }},
      {"tensor_count_max", kCorrupt, "small.gguf", "tensors",
       [] {
         auto b = SmallFile();
         b.num_tensors = ~0ull;
         return b.Bytes();
       }},
      {"tensor_count_one_more", kCorrupt, "small.gguf", "tensor name is empty",
       [] {
         auto b = SmallFile();
         b.num_tensors = 3;
         return b.Bytes();
       }},
      {"tensor_count_one_less", kCorrupt, "small.gguf", "behind its last tensor",
       [] {
         auto b = SmallFile();
         b.num_tensors = 1;
         return b.Bytes();
       }},
      {"key_count_2_60", kCorrupt, "small.gguf", "claims 1152921504606846976 metadata keys",
       [] {
         auto b = SmallFile();
         b.num_keys = 1ull << 60;
         return b.Bytes();
       }},
      {"key_count_above_limit", kCorrupt, "small.gguf", "4097 metadata keys",
       [] {
         auto b = SmallFile();
         for (int i = 0; i < 4096; ++i) b.AddBool(fmt::format("k{}", i), true);
         return b.Bytes();
       }},
      // Keys. The small one of issue G01: 37 bytes, a key of length 0.
      {"empty_key_37_bytes", kCorrupt, "small.gguf", "metadata key is empty",
       [] {
         GgufBuilder b;
         b.AddBool("", true);
         std::string bytes = b.Bytes();
         EXPECT_EQ(bytes.size(), 37u);
         return bytes;
       }},
      {"empty_key_string", kCorrupt, "small.gguf", "metadata key is empty",
       [] { return SmallFile().AddString("", "x").Bytes(); }},
      {"empty_key_array", kCorrupt, "small.gguf", "metadata key is empty",
       [] { return SmallFile().AddI32s("", {1}).Bytes(); }},
      {"key_length_2_60", kCorrupt, "small.gguf", "metadata key 0 claims 1152921504606846976 bytes",
       [] {
         GgufBuilder b;
         b.num_keys = 1;
         return b.Bytes() +
                ByteWriter().Number<std::uint64_t>(1ull << 60).Raw("abcdefghijklmn").Take();
       }},
      {"key_too_long", kCorrupt, "small.gguf", "65536 bytes",
       [] { return SmallFile().AddU32(std::string(65536, 'k'), 1).Bytes(); }},
      {"key_not_utf8", kCorrupt, "small.gguf", "metadata key is not valid UTF-8",
       [] { return SmallFile().AddU32("a\xFF", 1).Bytes(); }},
      {"key_with_escape", kCorrupt, "small.gguf", "control character",
       [] { return SmallFile().AddU32("a\x1B[2J", 1).Bytes(); }},
      {"key_twice", kCorrupt, "general.architecture", "appears twice",
       [] { return SmallFile().AddString("general.architecture", "llama").Bytes(); }},
      // Values.
      {"value_type_13", kCorrupt, "odd", "value type 13",
       [] { return SmallFile().AddRaw("odd", 13, "12345678").Bytes(); }},
      {"value_type_max", kCorrupt, "odd", "value type 4294967295",
       [] { return SmallFile().AddRaw("odd", ~0u, "12345678").Bytes(); }},
      {"bool_2", kCorrupt, "flag", "bool of value 2",
       [] { return SmallFile().AddRaw("flag", 7, "\x02").Bytes(); }},
      {"string_2_60", kCorrupt, "text", "claims 1152921504606846976 bytes",
       [] {
         return SmallFile()
             .AddRaw("text", 8, ByteWriter().Number<std::uint64_t>(1ull << 60).Take())
             .Bytes();
       }},
      {"string_max", kCorrupt, "text", "claims 18446744073709551615 bytes",
       [] { return SmallFile().AddRaw("text", 8, ByteWriter().Number(~0ull).Take()).Bytes(); }},
      {"string_not_utf8", kCorrupt, "text", "not valid UTF-8",
       [] { return SmallFile().AddString("text", "ab\xC0\xAF").Bytes(); }},
      {"string_surrogate", kCorrupt, "text", "not valid UTF-8",
       [] { return SmallFile().AddString("text", "\xED\xA0\x80").Bytes(); }},
      {"array_2_40", kCorrupt, "list", "claims 1099511627776 elements",
       [] { return WithArray(0, 1ull << 40); }},
      {"array_strings_2_61", kCorrupt, "list", "claims 2305843009213693952 elements",
       [] { return WithArray(8, 1ull << 61); }},
      {"array_of_arrays_2_40", kCorrupt, "list", "claims 1099511627776 elements",
       [] { return WithArray(9, 1ull << 40); }},
      {"array_max", kCorrupt, "list", "elements", [] { return WithArray(12, ~0ull); }},
      {"array_element_type_13", kCorrupt, "list", "element type 13",
       [] { return WithArray(13, 0); }},
      {"array_string_inside_too_long", kCorrupt, "list", "claims 1000000 bytes",
       [] { return WithArray(8, 1, ByteWriter().Number<std::uint64_t>(1000000).Take()); }},
      {"array_too_deep", kCorrupt, "deep", "deeper than 4", [] { return NestedArrays(5); }},
      {"array_very_deep", kCorrupt, "deep", "deeper than 4", [] { return NestedArrays(100000); }},
      // The alignment.
      {"alignment_0", kCorrupt, "general.alignment", "is 0", [] { return WithAlignment(0); }},
      {"alignment_3", kCorrupt, "general.alignment", "is 3", [] { return WithAlignment(3); }},
      {"alignment_4", kCorrupt, "general.alignment", "is 4", [] { return WithAlignment(4); }},
      {"alignment_2_30", kCorrupt, "general.alignment", "is 1073741824",
       [] { return WithAlignment(1u << 30); }},
      {"alignment_text", kCorrupt, "general.alignment", "not an unsigned integer",
       [] { return SmallFile().AddString("general.alignment", "32").Bytes(); }},
      {"alignment_negative", kCorrupt, "general.alignment", "not an unsigned integer",
       [] { return SmallFile().AddI32("general.alignment", -32).Bytes(); }},
      // Tensor names.
      {"tensor_name_empty", kCorrupt, "small.gguf", "tensor name is empty",
       [] { return WithTensor([](GgufTensor& t) { t.name = ""; }); }},
      {"tensor_name_65", kCorrupt, "small.gguf", "65 bytes",
       [] { return WithTensor([](GgufTensor& t) { t.name = std::string(65, 'n'); }); }},
      {"tensor_name_not_utf8", kCorrupt, "small.gguf", "not valid UTF-8",
       [] { return WithTensor([](GgufTensor& t) { t.name = "\xF8"; }); }},
      {"tensor_name_with_nul", kCorrupt, "small.gguf", "control character",
       [] { return WithTensor([](GgufTensor& t) { t.name = std::string("a\0b", 3); }); }},
      {"tensor_twice", kCorrupt, "b.weight", "appears twice",
       [] { return WithTensor([](GgufTensor& t) { t.name = "b.weight"; }); }},
      // Dimensions.
      {"dims_none", kCorrupt, "a.weight", "0 dimensions", [] { return WithDims({}); }},
      {"dims_5", kCorrupt, "a.weight", "5 dimensions",
       [] {
         return WithDims({2, 2, 2, 2, 1});
       }},
      {"dims_9", kCorrupt, "a.weight", "9 dimensions",
       [] {
         return WithDims({1, 1, 1, 1, 1, 1, 1, 1, 16});
       }},
      {"dim_0_only", kCorrupt, "a.weight", "dimension 0 of size 0", [] { return WithDims({0}); }},
      {"dim_0_second", kCorrupt, "a.weight", "dimension 1 of size 0",
       [] {
         return WithDims({4, 0});
       }},
      {"dim_negative", kCorrupt, "a.weight", "63 bits",
       [] {
         return WithDims({~0ull, 2});
       }},
      {"dims_product_wraps_to_16", kCorrupt, "a.weight", "63 bits",
       [] {
         return WithDims({(1ull << 62) + 4, 4});
       }},
      {"dims_product_2_64", kCorrupt, "a.weight", "63 bits",
       [] {
         return WithDims({1ull << 32, 1ull << 32});
       }},
      {"bytes_wrap", kCorrupt, "a.weight", "63 bits", [] { return WithDims({1ull << 62}); }},
      {"too_large_for_file", kCorrupt, "a.weight", "needs 4000000000000 bytes",
       [] {
         return WithDims({1000000, 1000000});
       }},
      {"row_not_whole_blocks", kCorrupt, "a.weight", "not a multiple of q8_0's block of 32",
       [] { return WithType(8); }},
      // Tensor types.
      {"type_q4_k", kUnsupported, "a.weight", "q4_k is not supported yet",
       [] { return WithType(12); }},
      {"type_q6_k", kUnsupported, "a.weight", "q6_k is not supported yet",
       [] { return WithType(14); }},
      {"type_q5_1", kUnsupported, "a.weight", "q5_1 is not supported yet",
       [] { return WithType(7); }},
      {"type_mxfp4", kUnsupported, "a.weight", "mxfp4 is not supported yet",
       [] { return WithType(39); }},
      {"type_withdrawn", kUnsupported, "a.weight", "q4_2 is not supported yet",
       [] { return WithType(4); }},
      {"type_unknown", kUnsupported, "a.weight", "tensor type 1000", [] { return WithType(1000); }},
      // Offsets and the end.
      {"offset_unaligned", kCorrupt, "a.weight", "not a multiple of the alignment 32",
       [] { return WithTensor([](GgufTensor& t) { t.offset = 4; }); }},
      {"offset_max", kCorrupt, "b.weight", "a hole",
       [] {
         auto b = SmallFile();
         b.tensors[1].offset = ~0ull - 31;
         return b.Bytes();
       }},
      {"offset_overlap", kCorrupt, "b.weight", "inside the tensor before it",
       [] {
         auto b = SmallFile();
         b.tensors[1].offset = 32;
         return b.Bytes();
       }},
      {"offset_same", kCorrupt, "b.weight", "inside the tensor before it",
       [] {
         auto b = SmallFile();
         b.tensors[1].offset = 0;
         return b.Bytes();
       }},
      {"offset_hole", kCorrupt, "b.weight", "a hole",
       [] {
         auto b = SmallFile();
         b.tensors[1].offset = 96;
         return b.Bytes();
       }},
      {"offset_first_not_0", kCorrupt, "a.weight", "a hole",
       [] {
         auto b = SmallFile();
         b.tensors[0].offset = 32;
         b.tensors[1].offset = 96;
         return b.Bytes();
       }},
      {"data_missing", kCorrupt, "b.weight", "behind the end of the file",
       [] {
         auto b = SmallFile().Bytes();
         b.resize(b.size() - 32);
         return b;
       }},
      {"one_byte_missing", kCorrupt, "b.weight", "behind the end of the file",
       [] {
         auto b = SmallFile().Bytes();
         b.resize(b.size() - 1);
         return b;
       }},
      {"one_byte_more", kCorrupt, "small.gguf", "1 bytes behind its last tensor",
       [] { return SmallFile().Bytes() + "x"; }},
      {"file_twice", kCorrupt, "small.gguf", "behind its last tensor",
       [] { return SmallFile().Bytes() + SmallFile().Bytes(); }},
      {"bytes_behind_a_file_without_tensors", kCorrupt, "small.gguf", "behind its last tensor",
       [] { return GgufBuilder().AddBool("k", true).Bytes() + std::string(64, '\0'); }},
  };
  return cases;
}

class GgufHostile : public testing::TestWithParam<HostileCase> {};

TEST_P(GgufHostile, IsRefusedByName) {
  const HostileCase& c = GetParam();
  const auto file = ParseText(c.bytes());
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(ErrorCodeName(file.error().code), std::string(ErrorCodeName(c.code)));
  EXPECT_EQ(file.error().field, c.field);
  EXPECT_NE(file.error().message.find(c.message), std::string::npos) << file.error().message;
}

INSTANTIATE_TEST_SUITE_P(All, GgufHostile, testing::ValuesIn(HostileCases()),
                         [](const testing::TestParamInfo<HostileCase>& info) {
                           return std::string(info.param.name);
                         });

TEST(GgufReader, ArraysNestToTheStatedDepth) { EXPECT_TRUE(ParseText(NestedArrays(4)).ok()); }

TEST(GgufReader, EveryTruncationFails) {
  const std::string whole = SmallFile().AddStrings("list", {"a", "bc"}).AddU64("n", 5).Bytes();
  ASSERT_TRUE(ParseText(whole).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto file = ParseText(whole.substr(0, size));
    ASSERT_FALSE(file.ok()) << size << " of " << whole.size() << " bytes";
    EXPECT_EQ(file.error().code, ErrorCode::kCorrupt) << size;
    EXPECT_FALSE(file.error().field.empty()) << size;
  }
}

TEST(GgufReader, AnArrayBudgetBoundsTheWholeFile) {
  // 16 Mi one-byte elements are the most of a file; two arrays that pass it together are refused
  // though each fits.
  const std::string half(9 << 20, '\1');
  GgufBuilder builder;
  for (const char* key : {"first", "second"}) {
    builder.AddRaw(
        key, Code(GgufValueType::kArray),
        ByteWriter().Type(GgufValueType::kU8).Number<std::uint64_t>(half.size()).Raw(half).Take());
  }
  const auto file = ParseText(builder.Bytes());
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().field, "second");
  EXPECT_NE(file.error().message.find("above 16777216"), std::string::npos);
}

}  // namespace
}  // namespace isobit
