// What the headers of include/farwrite declare: the entries that the matrix must have rows for.
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "fault/matrix_world.h"

namespace farwrite::fault {
namespace {

// Classes whose objects hold no handle.
const std::set<std::string> kValues = {"Status", "Result",           "MemoryKind",
                                       "Token",  "RegionDescriptor", "Factor"};

// How the C++ interface reaches the C ABI below it.
const std::set<std::string> kPlumbing = {"handle", "adopt"};

std::string without(const std::string& text, const std::string& pattern) {
  return std::regex_replace(text, std::regex(pattern), "");
}

std::string header(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return without(text.str(), "//[^\n]*");
}

// The public functions of the class whose body begins at `begin`, but for constructors and valid().
std::set<std::string> functions_of(const std::string& text, std::size_t begin,
                                   const std::string& kind) {
  std::string body = text.substr(begin, text.find("\n};", begin) - begin);
  body = body.substr(0, std::min(body.size(), body.find(" private:")));
  body = body.substr(body.find("public:") + 7);
  const std::regex inner("\\{[^{}]*\\}");  // a function's body ends its declaration
  while (std::regex_search(body, inner)) body = std::regex_replace(body, inner, ";");
  std::set<std::string> names;
  const std::regex function("([~\\w]+)\\(");
  std::stringstream statements(body);
  for (std::string statement; std::getline(statements, statement, ';');) {
    std::smatch found;
    if (statement.find("using ") != std::string::npos) continue;
    if (!std::regex_search(statement, found, function)) continue;
    const std::string name = found[1];
    const bool special = name == kind || name == "operator" || name[0] == '~' || name == "valid" ||
                         kPlumbing.contains(name);
    if (!special && statement.find("operator=") == std::string::npos) {
      names.insert(kind + "::" + name);
    }
  }
  return names;
}

}  // namespace

std::set<std::string> matrix_entries() {
  std::set<std::string> names;
  const std::regex declaration(R"(\nclass (?:\[\[nodiscard\]\] )?(\w+) \{)");
  const std::regex c_function("FW_API [^;(]*?(fw_\\w+)\\(");
  for (const auto& file :
       std::filesystem::directory_iterator(FARWRITE_SOURCE_DIR "/include/farwrite")) {
    const std::string text = header(file.path());
    const std::sregex_iterator end;
    for (std::sregex_iterator at(text.begin(), text.end(), declaration); at != end; ++at) {
      const std::string kind = (*at)[1];
      if (kValues.contains(kind)) continue;
      names.merge(functions_of(text, static_cast<std::size_t>(at->position()), kind));
    }
    for (std::sregex_iterator at(text.begin(), text.end(), c_function); at != end; ++at) {
      names.insert((*at)[1]);
    }
  }
  return names;
}

}  // namespace farwrite::fault
