"""What Millrace's libraries and programs are built with, and in which version: nothing else is fetched or probed for.

repositories.bzl says how each is found and README.md why it is here; development_repositories.bzl pins what only tests,
benchmarks and examples need.
"""

# The modules of Abseil behind its targets.
ABSL_MODULES = [
    "algorithm_container",
    "any_invocable",
    "base",
    "bind_front",
    "bits",
    "btree",
    "cleanup",
    "cord",
    "core_headers",
    "dynamic_annotations",
    "failure_signal_handler",
    "fixed_array",
    "flat_hash_map",
    "flat_hash_set",
    "function_ref",
    "hash",
    "inlined_vector",
    "int128",
    "leak_check",
    "memory",
    "node_hash_map",
    "node_hash_set",
    "optional",
    "random_random",
    "span",
    "stacktrace",
    "status",
    "statusor",
    "str_format",
    "strings",
    "symbolize",
    "synchronization",
    "time",
    "type_traits",
    "utility",
    "variant",
]

# Libraries of the system: their Debian package, and of each pkg-config module the least version.
SYSTEM_LIBRARIES = {
    "com_github_cliutils_cli11": struct(
        debian_package = "libcli11-dev",
        modules = {"CLI11": "2.1"},
    ),
    "com_github_gabime_spdlog": struct(
        debian_package = "libspdlog-dev",
        modules = {"spdlog": "1.10", "fmt": "9.1"},
    ),
    "com_github_grpc_grpc": struct(
        debian_package = "libgrpc++-dev",
        modules = dict({"grpc++": "1.51", "protobuf": ""}, **{"absl_" + module: "" for module in ABSL_MODULES}),
    ),
    "com_github_jbeder_yaml_cpp": struct(
        debian_package = "libyaml-cpp-dev",
        modules = {"yaml-cpp": "0.7"},
    ),
    "com_github_nlohmann_json": struct(
        debian_package = "nlohmann-json3-dev",
        modules = {"nlohmann_json": "3.11"},
    ),
    "com_google_absl": struct(
        debian_package = "libabsl-dev",
        modules = {"absl_" + module: "20220623" for module in ABSL_MODULES},
    ),
    "com_google_protobuf": struct(
        debian_package = "libprotobuf-dev",
        modules = {"protobuf": "3.21"},
    ),
    "millrace_cares": struct(
        debian_package = "libc-ares-dev",
        modules = {"libcares": "1.18"},
    ),
    "millrace_freetype": struct(
        debian_package = "libfreetype-dev",
        modules = {"freetype2": "24"},
    ),
    "millrace_glfw": struct(
        debian_package = "libglfw3-dev",
        modules = {"glfw3": "3.3"},
    ),
    "millrace_libsodium": struct(
        debian_package = "libsodium-dev",
        modules = {"libsodium": "1.0.18"},
    ),
    "millrace_openssl": struct(
        debian_package = "libssl-dev",
        modules = {"libssl": "3.0", "libcrypto": "3.0"},
    ),
    "millrace_zlib": struct(
        debian_package = "zlib1g-dev",
        modules = {"zlib": "1.2"},
    ),
}

# Upstream's archives, as some release of Debian has them.
DEBIAN_SOURCES = {
    "cpp-httplib": struct(
        sha256 = "c88f6495da71e778c82c22995b547a92ceb41cc4016f9028df67106a24b9210d",
        version = "0.18.7",
    ),
    "curl": struct(
        sha256 = "6766ada7101d292b42b8b15681120acd68effa4a9660935853cf6d61f0d984d4",
        version = "8.14.1",
    ),
}

# Source distributions of PyPI.
PYPI_SOURCES = {
    "imgui-bundle": struct(
        sha256 = "10ad1dab8258a6787b4f07bb926b08d0efc648a7906242568c8dd778c5e719bf",
        version = "1.93.0",
    ),
    "isal": struct(
        sha256 = "d210dca02a689ef2af709d2c62d2daac2e36b5d2fa06e6dc0d023c83fee77e91",
        version = "1.9.1",
    ),
    "nanoarrow": struct(
        sha256 = "1ce15bbed8532839347faa78824c5dbd3769bff60661003e34c6fba5dd881bd3",
        version = "0.9.0",
    ),
    "pysimdjson": struct(
        sha256 = "44cf276e48912a3b9c7ca362c14da8420a7ac15a9f1a16ec95becff86db3904a",
        version = "7.0.2",
    ),
    "pyzmq": struct(
        sha256 = "93f1aa311e8bb912e34f004cf186407a4e90eec4f0ecc0efd26056bf7eda0226",
        version = "25.1.2",
    ),
}

# Jars of Maven Central.
JEROMQ = struct(
    artifact = "org.zeromq:jeromq:0.6.0",
    sha256 = "4784ff6d6e91b8eecd917b73d07b161c19a808ef870a5bdb760515bb67e208d3",
    sources_sha256 = "c20e579710d385869496d25217a7820665f7687dc1499b21be6e0ac7e9485a03",
)
JNACL = struct(
    artifact = "eu.neilalexander:jnacl:1.0.0",
    sha256 = "4accc9d2a56a6dd5198ec5e1c5c05a091da563bccd346fd6578edc083152beaa",
)

# What the Spark connector is compiled against, and never holds: Spark brings it. Compiled against the oldest
# line; a test links the class files against the others.
SPARK_JARS = {
    "com.fasterxml.jackson.core:jackson-annotations:2.15.2":
        "04e21f94dcfee4b078fa5a5f53047b785aaba69d19de392f616e7a7fe5d3882f",
    "com.esotericsoftware:kryo-shaded:4.0.2": "a4899f57fef456b9ec66f730e7b493ecb3dc494cc5758721ed9c18416fd2d3b6",
    "org.apache.hadoop:hadoop-client-api:3.3.4": "e513d71b78086b5caaa439f4402b43e20df01446d56b66084ad419452878701c",
    "org.apache.spark:spark-catalyst_2.12:3.5.9": "58715b96ee0dd847848d8096ea8da8409ee888689dbe71ec1fd07237f0d4d4d1",
    "org.apache.spark:spark-common-utils_2.12:3.5.9":
        "f67adc2920421c041c838bd36ef54cf46ae8e114cfb85b8794a220535690b9ad",
    "org.apache.spark:spark-core_2.12:3.5.9": "f8c2a9001598855b08a8f85adc66a7bec80b0e25109f0149a34e350f9340d788",
    "org.apache.spark:spark-mllib_2.12:3.5.9": "b1fca533ad5e724ecc213cfe89d44ffb0f5a6d1c6c531a9a4306b520c4cf7666",
    "org.apache.spark:spark-sql-api_2.12:3.5.9": "9f6ea16201c783c2bfde5e913405b7d9997ad2ebd840a4977f96e82bb7d64544",
    "org.apache.spark:spark-sql_2.12:3.5.9": "7c2c0e0f551373eb80efa066e2d5d4fe878372f6f69403eae0d09b652d071083",
    "org.apache.spark:spark-streaming_2.12:3.5.6": "a0079d4555043841995b16fca44a8d1f7d8521caee9b2ae4306934bdbfcbe58e",
    "org.apache.spark:spark-tags_2.12:3.5.9": "5c823b3b4782733f2af6990a1448b214af3916e2229d60b347e342166cbdd47a",
    "org.apache.spark:spark-unsafe_2.12:3.5.9": "13463c25d402f1c63caa7a0fca3bc0a055b048b0f5948cf363234b301c35d548",
    "org.scala-lang:scala-library:2.12.18": "e51e6636c003359e106bea4ad99def70e613c290190c8c84f10f9560dd5b00ae",
    "org.scala-lang:scala-reflect:2.12.18": "d6a24e175246541ffcbc965a231aa1d3bb01d61def196f91495690fabf9783bc",
    "org.slf4j:slf4j-api:2.0.7": "5d6298b93a1905c32cda6478808ac14c2d4a47e91535e53c41f7feeb85d946f4",
}
