// File: resolver/natural_order.h
//
// The order of names that hold numbers.
//
// Defines: NaturalCompare().

#ifndef RESOLVER_NATURAL_ORDER_H_
#define RESOLVER_NATURAL_ORDER_H_

#include <compare>

#include "absl/strings/string_view.h"

namespace millrace {

// Compares texts with the numbers in them by their values: "w9" < "w10". Texts that differ only in
// leading zeros are in bytewise order.
[[nodiscard]] std::strong_ordering NaturalCompare(absl::string_view a, absl::string_view b);

}  // namespace millrace

#endif  // RESOLVER_NATURAL_ORDER_H_
