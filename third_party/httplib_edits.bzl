"""What is changed in cpp-httplib's header. README.md says why, and when an edit can go.

Each edit is a text of the file and what takes its place.
"""

HTTPLIB_EDITS = [
    # Lines of headers are bounded, their number is not: whoever connects could send them until memory ends. Later
    # versions have a bound too (0.23).
    """\
    if (!parse_header(line_reader.ptr(), end,
                      [&](const std::string &key, const std::string &val) {
                        headers.emplace(key, val);
                      })) {
      return false;
    }
  }

  return true;
}

inline bool read_content_with_length(""",
    """\
    if (headers.size() >= 100) { return false; }

    if (!parse_header(line_reader.ptr(), end,
                      [&](const std::string &key, const std::string &val) {
                        headers.emplace(key, val);
                      })) {
      return false;
    }
  }

  return true;
}

inline bool read_content_with_length(""",
]
