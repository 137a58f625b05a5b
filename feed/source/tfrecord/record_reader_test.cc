#include "feed/source/tfrecord/record_reader.h"

#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "feed/source/tfrecord/masked_crc32c.h"
#include "feed/source/tfrecord/record_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Records = std::vector<std::string>;

constexpr TfRecordCompression kCompressions[] = {
    TfRecordCompression::kNone, TfRecordCompression::kGzip, TfRecordCompression::kZlib};

class RecordReaderTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return JoinPath(dir_.path(), name); }
  std::string Put(const std::string& bytes) const {
    const std::string path = Path("file.tfrecord");
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string Write(const Records& records, TfRecordCompression compression) const {
    const std::string path = Path("file.tfrecord");
    auto writer = RecordWriter::Create(path, compression);
    EXPECT_THAT(writer, IsOk());
    for (const std::string& record : records) EXPECT_THAT((*writer)->Append(record), IsOk());
    EXPECT_THAT((*writer)->Finish(), IsOk());
    return path;
  }
  static absl::StatusOr<Records> Read(const std::string& path) {
    absl::StatusOr<std::unique_ptr<RecordReader>> reader = RecordReader::Open(path);
    if (!reader.ok()) return reader.status();
    Records records;
    while (true) {
      absl::StatusOr<std::optional<absl::string_view>> record = (*reader)->Next();
      if (!record.ok()) return record.status();
      if (!record->has_value()) break;
      records.emplace_back(**record);
    }
    EXPECT_FALSE((*reader)->Next()->has_value());
    return records;
  }
  // A record whose header says `length`, with the right checksum.
  static std::string Header(uint64_t length) {
    std::string header(reinterpret_cast<const char*>(&length), sizeof(length));
    const uint32_t crc = MaskedCrc32c(header);
    return header.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
  }

  TempDir dir_ = *TempDir::Create("tfrecord");
};

TEST_F(RecordReaderTest, ReadsWhatWasWritten) {
  std::mt19937_64 random(1);
  Records records = {"", "a", std::string(1 << 20, 'x'), ""};
  for (int i = 0; i < 3000; ++i) records.emplace_back(random() % 500, static_cast<char>(random()));
  std::string noise(3'000'000, '\0');  // does not become smaller
  for (char& byte : noise) byte = static_cast<char>(random());
  records.push_back(noise);
  for (const TfRecordCompression compression : kCompressions) {
    EXPECT_TRUE(*Read(Write(records, compression)) == records);
    EXPECT_THAT(Read(Write({}, compression)), IsOkAndHolds(IsEmpty()));
    EXPECT_THAT(Read(Write({""}, compression)), IsOkAndHolds(ElementsAre("")));
  }
}

TEST_F(RecordReaderTest, AGzipFileMayHaveSeveralStreams) {
  const std::string one = *ReadFile(Write({"a", "b"}, TfRecordCompression::kGzip));
  EXPECT_THAT(Read(Put(one + one)), IsOkAndHolds(ElementsAre("a", "b", "a", "b")));
  const std::string zlib = *ReadFile(Write({"a"}, TfRecordCompression::kZlib));
  EXPECT_THAT(Read(Put(zlib + zlib)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("more behind its end")));
}

TEST_F(RecordReaderTest, DamageAtAnyByteIsAnError) {
  const Records records = {"the first record", "", "and the last"};
  const std::string good = *ReadFile(Write(records, TfRecordCompression::kNone));
  for (size_t at = 0; at < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      const absl::Status status = Read(Put(bad)).status();
      EXPECT_THAT(status, StatusIs(at < kRecordHeaderBytes ? absl::StatusCode::kInvalidArgument
                                                           : absl::StatusCode::kDataLoss,
                                   HasSubstr("damaged")))
          << at;
    }
  }
}

TEST_F(RecordReaderTest, DamageOfCompressedDataIsAnErrorOrHasNoEffect) {
  const Records records = {"the first record", "", "and the last"};
  for (const TfRecordCompression compression :
       {TfRecordCompression::kGzip, TfRecordCompression::kZlib}) {
    const std::string good = *ReadFile(Write(records, compression));
    int errors = 0;
    for (size_t at = 0; at < good.size(); ++at) {
      for (const int bit : {0, 3, 7}) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
        const absl::StatusOr<Records> read = Read(Put(bad));
        if (read.ok()) {
          // GZIP's header has a time, flags and the name of a system, which nobody uses; and what
          // is compressed ends within a byte.
          const size_t checksums = compression == TfRecordCompression::kGzip ? 8 : 4;
          EXPECT_TRUE(at < 10 || at == good.size() - checksums - 1) << at;
          EXPECT_EQ(*read, records);
          continue;
        }
        ++errors;
        EXPECT_THAT(read, AnyOf(StatusIs(absl::StatusCode::kDataLoss),
                                StatusIs(absl::StatusCode::kInvalidArgument)));
      }
    }
    EXPECT_GT(errors, static_cast<int>(good.size() * 3) - 30);
  }
}

TEST_F(RecordReaderTest, AFileThatIsCutShortIsAnErrorUnlessItIsCutBetweenRecords) {
  const Records records = {"the first record", "the last"};
  for (const TfRecordCompression compression : kCompressions) {
    const std::string good = *ReadFile(Write(records, compression));
    for (size_t size = 0; size < good.size(); ++size) {
      const absl::StatusOr<Records> read = Read(Put(good.substr(0, size)));
      const bool whole = size == 0 || (compression == TfRecordCompression::kNone && size == 32);
      if (whole) {
        EXPECT_THAT(read, IsOk()) << size;
      } else {
        EXPECT_THAT(read, AnyOf(StatusIs(absl::StatusCode::kDataLoss, HasSubstr("cut short")),
                                StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("no TFRecord file"))))
            << size;
      }
    }
  }
}

// The most memory that this process has ever had, resident or not.
int64_t PeakBytes() {
  const std::string status = *ReadFile("/proc/self/status");
  const size_t at = status.find("VmPeak:");
  return std::stoll(status.substr(at + 7)) * 1024;
}

TEST_F(RecordReaderTest, NoLengthIsBelievedBeforeTheBytesAreThere) {
  // More than is read at once.
  const std::string file = Header((uint64_t{1} << 31) - 1) + std::string(300'000, '\0');
  std::string packed(file.size(), '\0');
  uLongf size = packed.size();
  ASSERT_EQ(compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                     reinterpret_cast<const Bytef*>(file.data()), file.size()),
            Z_OK);
  packed.resize(size);
  const int64_t before = PeakBytes();
  for (const std::string& bytes : {file, packed}) {
    EXPECT_THAT(Read(Put(bytes)),
                StatusIs(absl::StatusCode::kDataLoss,
                         AllOf(HasSubstr("record 0 (byte 0"), HasSubstr("2147483663 bytes"),
                               HasSubstr("300012 are there"))));
  }
  EXPECT_LT(PeakBytes() - before, int64_t{1} << 30);
  EXPECT_THAT(Read(Put(Header(uint64_t{1} << 31))),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2147483648 bytes")));
  EXPECT_THAT(Read(Put(Header(~uint64_t{0}))), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(RecordReaderTest, ErrorsSayWhere) {
  const std::string path = Write({"0123", "4567"}, TfRecordCompression::kNone);
  std::string bad = *ReadFile(path);
  bad[20 + 12 + 1] ^= 1;  // in the data of the second record
  EXPECT_THAT(Read(Put(bad)),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("file.tfrecord, record 1 (byte 20): the checksum of its data is "
                                 "wrong: the file is damaged; copy or write it again")));
  std::string length = *ReadFile(Write({"0123", "4567"}, TfRecordCompression::kNone));
  length[20] ^= 1;
  EXPECT_THAT(Read(Put(length)), StatusIs(absl::StatusCode::kDataLoss,
                                          HasSubstr("record 1 (byte 20): the checksum of its "
                                                    "length is wrong")));
  const std::string gzip = *ReadFile(Write({"0123"}, TfRecordCompression::kGzip));
  EXPECT_THAT(Read(Put(gzip.substr(0, gzip.size() - 1))),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("the GZIP data is damaged (it is cut short)")));
  EXPECT_THAT(Read(Put("id,name\n1,x\n2,y\n")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is no TFRecord file")));
  EXPECT_THAT(Read(Path("nowhere")), StatusIs(absl::StatusCode::kNotFound, HasSubstr("nowhere")));
  EXPECT_THAT(Read("/dev/null"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no regular file")));
}

}  // namespace
}  // namespace millrace
