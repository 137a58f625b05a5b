"""The C++ standard that this repository is written in, as flags of the compiler."""

CXX_STANDARD = ["-std=c++20"]
