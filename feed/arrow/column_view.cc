#include "millrace/column_view.h"

#include "feed/arrow/bitmap.h"

namespace millrace {

int64_t ColumnView::CountNulls() const {
  return may_have_nulls() ? CountZeroBits(data_->validity, first_, length_) : 0;
}

int64_t ColumnView::byte_size() const {
  int64_t bytes = may_have_nulls() ? BitmapBytes(length_) : 0;
  const Type& type = data_->type;
  if (type.id() == TypeId::kBool) return bytes + BitmapBytes(length_);
  if (type.is_primitive()) return bytes + length_ * type.byte_width();
  if (type.is_struct()) {
    for (size_t i = 0; i < data_->children.size(); ++i) bytes += Child(i).byte_size();
    return bytes;
  }
  if (type.is_fixed_size_list()) return bytes + Elements().byte_size();
  if (length_ == 0) return bytes;
  bytes += (length_ + 1) * (type.is_large() ? 8 : 4);
  return bytes + (type.is_variable() ? OffsetAt(length_) - OffsetAt(0) : Elements().byte_size());
}

}  // namespace millrace
