// Expose: access to a private member of TensorFlow's that TensorFlow gives no way to. An explicit
// instantiation may name a private member, [temp.spec]/6, so the compiler finds it by name and
// type; it stands in this namespace. abi.cc checks the sizes of the classes.
//
//   struct SecretOfThing {
//     using type = int Thing::*;
//     friend type member(SecretOfThing);
//   };
//   template struct Expose<SecretOfThing, &Thing::secret_>;
//   thing.*member(SecretOfThing()) = 1;
#pragma once

namespace farwrite::plugin {

template <typename Tag, typename Tag::type kMember>
struct Expose {
  friend typename Tag::type member(Tag) { return kMember; }
};

}  // namespace farwrite::plugin
