// File: resolver/every/argument_rules_of.h
//
// The choice between our rules for a resolver's arguments and TensorFlow's.
//
// Defines: ArgumentRulesOf().

#ifndef RESOLVER_EVERY_ARGUMENT_RULES_OF_H_
#define RESOLVER_EVERY_ARGUMENT_RULES_OF_H_

#include "millrace/resolver_base.h"
#include "resolver/argument_rules.h"
#include "resolver/tensorflow/tensorflow_arguments.h"

namespace millrace {

inline ArgumentRules ArgumentRulesOf(ResolverBehavior behavior) {
  return behavior == ResolverBehavior::kTensorFlow ? TensorFlowArgumentRules() : OurArgumentRules();
}

}  // namespace millrace

#endif  // RESOLVER_EVERY_ARGUMENT_RULES_OF_H_
