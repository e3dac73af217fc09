// What a terminal can show, by the variables of its environment.
#pragma once

#include <cctype>
#include <string>

namespace lf {

// Whether it obeys control sequences (TERM). One that says nothing, or "dumb", is written to as to a file.
inline bool obeys_control_sequences(const char* term) {
  return term != nullptr && *term != '\0' && std::string(term) != "dumb";
}

// Whether its characters are those of UTF-8: the first of the three that says something, in the order of POSIX.
inline bool shows_unicode(const char* lc_all, const char* lc_ctype, const char* lang) {
  for (const char* locale : {lc_all, lc_ctype, lang}) {
    if (locale == nullptr || *locale == '\0') continue;
    std::string letters;  // utf8, UTF-8
    for (const char* c = locale; *c != '\0'; ++c)
      if (*c != '-') letters += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
    return letters.find(".utf8") != std::string::npos;
  }
  return false;
}

}  // namespace lf
