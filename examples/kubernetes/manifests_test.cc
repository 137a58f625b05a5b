// The files of this folder on a real API server, and what docs/kubernetes.md shows of them: objects
// that the server takes as they are, commands that the real executables take, and a cluster on pods
// made of the Jobs' own templates.

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "core/launch/agent_secret.h"
#include "examples/hosts/pods_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/status_macros.h"
#include "testing/child_process.h"
#include "testing/eventually.h"
#include "testing/kube_apiserver/curl_session.h"
#include "testing/kube_apiserver/kube_api_server.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr char kSecretFolder[] = "/etc/millrace";  // where pods mount the Secret
constexpr int kPort = 7077;

std::string Text(const std::string& runfile) {
  const auto text = ReadFile(RunfilePath(runfile), 1 << 20);
  EXPECT_THAT(text, IsOk());
  return text.value_or("");
}
std::string Manifest(const std::string& name) { return Text("examples/kubernetes/" + name); }

// Without what a page may write differently: indents, and comments that begin a line.
std::string Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::string_view bare = absl::StripAsciiWhitespace(line);
    if (!bare.empty() && !absl::StartsWith(bare, "#")) lines.emplace_back(bare);
  }
  return absl::StrJoin(lines, "\n");
}

// The texts of a JSON array.
std::vector<std::string> Words(const Json& array) {
  std::vector<std::string> words;
  for (const Json& word : array) words.push_back(word.get<std::string>());
  return words;
}

class ManifestsTest : public PodsTest {
 protected:
  // The object of a YAML document, as the server has taken it: with strict validation, so that a
  // field it does not know is an error.
  absl::StatusOr<Json> Apply(const std::string& document) {
    static const auto* const kPaths = new std::map<std::string, std::string>{
        {"Service", "/api/v1/namespaces/ml/services"},
        {"Secret", "/api/v1/namespaces/ml/secrets"},
        {"Job", "/apis/batch/v1/namespaces/ml/jobs"},
        {"Role", "/apis/rbac.authorization.k8s.io/v1/namespaces/ml/roles"},
        {"RoleBinding", "/apis/rbac.authorization.k8s.io/v1/namespaces/ml/rolebindings"}};
    std::string kind;
    for (const absl::string_view line : absl::StrSplit(document, '\n')) {
      absl::string_view rest = line;
      if (absl::ConsumePrefix(&rest, "kind: ")) kind = std::string(rest);
    }
    const auto path = kPaths->find(kind);
    if (path == kPaths->end()) return absl::NotFoundError("no path for kind " + kind);
    CurlSession session({.ca_pem = server_->pki().ca_pem(), .token = KubeApiServer::kAdminToken});
    MILLRACE_ASSIGN_OR_RETURN(
        const CurlSession::Response answer,
        session.Send({.method = "POST",
                      .url = absl::StrCat(server_->url(), path->second, "?fieldValidation=Strict"),
                      .content_type = "application/yaml",
                      .body = document}));
    if (answer.status != 201) {
      return absl::InvalidArgumentError(absl::StrCat(kind, ": ", answer.status, " ", answer.body));
    }
    return ParseJson(answer.body);
  }
  // All of a file, by kind and name.
  std::map<std::string, Json> ApplyAll(const std::string& text) {
    std::map<std::string, Json> objects;
    for (const absl::string_view document : absl::StrSplit(text, "\n---\n")) {
      const auto object = Apply(std::string(document));
      EXPECT_THAT(object, IsOk());
      if (!object.ok()) continue;
      objects[absl::StrCat((*object)["kind"].get<std::string>(), " ",
                           (*object)["metadata"]["name"].get<std::string>())] = *object;
    }
    return objects;
  }

  // The Secret that the documented command makes, applied, and a folder as pods mount it.
  void MakeSecret() {
    const auto made = ChildProcess::Start({RunfilePath("core/cli/millrace"), "agent-secret",
                                           "--kubernetes", "millrace-agent", "--namespace", "ml"});
    ASSERT_THAT(made, IsOk());
    std::string manifest;
    for (auto line = (*made)->WaitForLine("", kLong); line.ok();
         line = (*made)->WaitForLine("", kLong)) {
      absl::StrAppend(&manifest, *line, "\n");
    }
    ExpectEndsWell(**made);
    const auto secret = Apply(manifest);
    ASSERT_THAT(secret, IsOk());
    secret_ = JoinPath(folder_->path(), "secret");
    std::map<std::string, std::string> files;
    for (const auto& [name, value] : (*secret)["data"].items()) {
      ASSERT_TRUE(absl::Base64Unescape(value.get<std::string>(), &files[name]));
    }
    AgentSecret parts;
    parts.token = std::string(absl::StripAsciiWhitespace(files["token"]));
    parts.certificate_pem = files["tls.crt"];
    parts.key_pem = files["tls.key"];
    ASSERT_THAT(WriteAgentSecretDir(secret_, parts), IsOk());
  }

  // A pod as the Job's controller makes it.
  std::string AddPodOf(const Json& job, int index) {
    const Json& spec = job["spec"]["template"];
    const std::string name =
        absl::StrCat(job["metadata"]["name"].get<std::string>(), "-", index, "-x");
    Json pod = {{"metadata", {{"name", name}, {"labels", spec["metadata"]["labels"]}}},
                {"spec", spec["spec"]}};
    pod["metadata"]["annotations"][kIndexKey] = absl::StrCat(index);
    EXPECT_THAT(server_->Call("POST", "/api/v1/namespaces/ml/pods?fieldValidation=Strict", pod),
                IsOk());
    StartAgentOf(name);
    return name;
  }

  // A kubeconfig of the service account that rights.yaml is about, once the server knows of its
  // rights.
  void BeTheDefaultAccount() {
    ASSERT_THAT(server_->CreateServiceAccount("ml", "default"), IsOk());
    ApplyAll(Manifest("rights.yaml"));
    const auto token = server_->ServiceAccountToken("ml", "default");
    ASSERT_THAT(token, IsOk());
    CurlSession session({.ca_pem = server_->pki().ca_pem(), .token = *token});
    ASSERT_TRUE(Eventually(
        [&] {
          const auto answer =
              session.Send({.url = absl::StrCat(server_->url(), "/api/v1/namespaces/ml/pods")});
          EXPECT_THAT(answer, IsOk());
          return answer.ok() && answer->status == 200;
        },
        kLong));
    ASSERT_THAT(WriteFileAtomic(kubeconfig_, server_->KubeConfig(*token, "ml")), IsOk());
  }
};

TEST(ManifestsPageTest, ShowsWhatIsInTheFiles) {
  const std::string page = Text("docs/kubernetes.md");
  const std::string files = Lines(absl::StrCat(
      Manifest("Dockerfile"), "\n", Manifest("rights.yaml"), "\n", Manifest("agents.yaml"), "\n",
      Manifest("driver.yaml"), "\n", Manifest("resumable_driver.yaml")));
  int shown = 0;
  const std::vector<std::string> parts = absl::StrSplit(page, "\n```");
  for (const std::string& part : parts) {
    if (!absl::StartsWith(part, "yaml\n") && !absl::StartsWith(part, "dockerfile\n")) continue;
    const std::string block = Lines(part.substr(part.find('\n')));
    EXPECT_THAT(files, HasSubstr(block));
    ++shown;
  }
  EXPECT_EQ(shown, 6);
}

// All that a command prints.
std::vector<std::string> OutputOf(const std::vector<std::string>& argv) {
  const auto child = ChildProcess::Start(argv);
  EXPECT_THAT(child, IsOk());
  std::vector<std::string> lines;
  if (!child.ok()) return lines;
  for (auto line = (*child)->WaitForLine("", absl::Seconds(60)); line.ok();
       line = (*child)->WaitForLine("", absl::Seconds(60))) {
    lines.push_back(*line);
  }
  return lines;
}

// Other than a test's with a sanitizer, whose runtimes are libraries.
TEST(ManifestsImageTest, HasNoLibrariesSinceTheExecutablesNeedNone) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "with a sanitizer no executable is static";
#endif
#endif
  for (const char* executable : {"core/cli/millrace", "core/agent/millrace-agent"}) {
    const std::vector<std::string> told =
        OutputOf({"/usr/bin/readelf", "-hd", RunfilePath(executable)});
    EXPECT_THAT(told, ::testing::Contains(HasSubstr("ELF Header")));
    EXPECT_THAT(told, ::testing::Not(::testing::Contains(HasSubstr("(NEEDED)")))) << executable;
  }
}

TEST_F(ManifestsTest, TheServerRefusesAFieldThatItDoesNotKnow) {
  const std::string wrong =
      absl::StrReplaceAll(Manifest("rights.yaml"), {{"resources: [pods]", "resource: [pods]"}});
  const std::vector<std::string> documents = absl::StrSplit(wrong, "\n---\n");
  const auto applied = Apply(documents[0]);
  EXPECT_THAT(std::string(applied.status().message()), HasSubstr("unknown field"));
}

TEST_F(ManifestsTest, TheContainerListensWhereThePodsSayAndReadsWhatTheyMount) {
  MakeSecret();
  std::map<std::string, Json> objects = ApplyAll(Manifest("agents.yaml"));
  if (HasFailure()) return;
  EXPECT_EQ(objects["Service millrace"]["spec"]["ports"][0]["port"], kPort);
  for (const char* name : {"Job train-worker", "Job train-ps"}) {
    const Json& spec = objects[name]["spec"]["template"]["spec"];
    const Json& container = spec["containers"][0];
    EXPECT_EQ(container["ports"][0]["containerPort"], kPort);
    EXPECT_EQ(container["readinessProbe"]["tcpSocket"]["port"], kPort);
    EXPECT_EQ(container["volumeMounts"][0]["mountPath"], kSecretFolder);
    EXPECT_EQ(spec["volumes"][0]["secret"]["secretName"], "millrace-agent");
    EXPECT_EQ(spec["volumes"][0]["secret"]["defaultMode"], 0440);
    EXPECT_EQ(spec["subdomain"], objects["Service millrace"]["metadata"]["name"]);
    for (const auto& [label, value] : objects["Service millrace"]["spec"]["selector"].items()) {
      EXPECT_EQ(objects[name]["spec"]["template"]["metadata"]["labels"][label], value);
    }
  }

  std::vector<std::string> words;
  for (absl::string_view line : absl::StrSplit(Manifest("Dockerfile"), '\n')) {
    if (absl::ConsumePrefix(&line, "ENTRYPOINT ")) words = Words(*ParseJson(line));
  }
  ASSERT_FALSE(words.empty());
  const auto listen = std::find(words.begin(), words.end(), absl::StrCat("0.0.0.0:", kPort));
  ASSERT_NE(listen, words.end());
  *listen = "127.0.0.2:0";
  const auto folder = std::find(words.begin(), words.end(), kSecretFolder);
  ASSERT_NE(folder, words.end());
  *folder = secret_;
  ASSERT_EQ(words[0], "millrace-agent");
  words[0] = RunfilePath("core/agent/millrace-agent");
  const auto agent = ChildProcess::Start(words);
  ASSERT_THAT(agent, IsOk());
  EXPECT_THAT((*agent)->WaitForLine("millrace-agent: listening on 127.0.0.2:", kLong), IsOk());
}

TEST_F(ManifestsTest, TheDriversCommandRunsOnPodsOfTheJobsTemplatesWithTheRightsOfTheRole) {
  MakeSecret();
  std::map<std::string, Json> objects = ApplyAll(Manifest("agents.yaml"));
  const std::map<std::string, Json> driver = ApplyAll(Manifest("driver.yaml"));
  BeTheDefaultAccount();
  if (HasFailure()) return;
  for (const char* name : {"Job train-ps", "Job train-worker"}) {
    for (int i = 0; i < objects[name]["spec"]["completions"].get<int>(); ++i) {
      AddPodOf(objects[name], i);
    }
  }
  if (HasFailure()) return;

  const Json& spec = driver.at("Job train-driver")["spec"]["template"]["spec"];
  const Json& container = spec["containers"][0];
  EXPECT_EQ(container["volumeMounts"][0]["mountPath"], kSecretFolder);
  // All of it: a driver shows the agents the certificate of their secret, with its key.
  EXPECT_EQ(spec["volumes"][0]["secret"]["secretName"], "millrace-agent");
  EXPECT_EQ(spec["volumes"][0]["secret"].count("items"), 0u);
  std::vector<std::string> words = Words(container["command"]);
  ASSERT_EQ(words[0], "millrace");
  words[0] = RunfilePath("core/cli/millrace");
  for (std::string& word : words) word = absl::StrReplaceAll(word, {{kSecretFolder, secret_}});
  const auto program = std::find(words.begin(), words.end(), "--");
  ASSERT_NE(program, words.end());
  words.erase(program, words.end());
  for (const std::string& word :
       {std::string("--location=off_cluster"), absl::StrCat("--kubeconfig=", kubeconfig_),
        absl::StrCat("--port=", port_), std::string("--"), std::string("sh"), std::string("-c"),
        std::string("test -n \"$RANK\" || exec sleep 600; "
                    "echo rank $RANK of $WORLD_SIZE")}) {
    words.push_back(word);
  }
  const auto run = ChildProcess::Start(words);
  ASSERT_THAT(run, IsOk());
  std::vector<std::string> printed;
  for (auto line = (*run)->WaitForLine("worker:", kLong); line.ok();
       line = (*run)->WaitForLine("worker:", kLong)) {
    printed.push_back(*line);
  }
  EXPECT_THAT(printed,
              ::testing::UnorderedElementsAre("worker:0| rank 0 of 4", "worker:1| rank 1 of 4",
                                              "worker:2| rank 2 of 4", "worker:3| rank 3 of 4"));
  ExpectEndsWell(**run);
}

TEST_F(ManifestsTest, AProgramInAPodKnowsItsTaskByTheEnvironmentOfTheManifest) {
  MakeSecret();
  std::map<std::string, Json> objects = ApplyAll(Manifest("agents.yaml"));
  if (HasFailure()) return;
  std::string name;
  for (int i = 0; i < 3; ++i) name = AddPodOf(objects["Job train-worker"], i);
  if (HasFailure()) return;
  const auto pod = server_->Call("GET", "/api/v1/namespaces/ml/pods/" + name);
  ASSERT_THAT(pod, IsOk());
  // As a kubelet fills it in.
  std::vector<std::string> argv = {"/usr/bin/env"};
  for (const Json& variable : (*pod)["spec"]["containers"][0]["env"]) {
    const auto path = variable["valueFrom"]["fieldRef"]["fieldPath"].get<std::string>();
    absl::string_view field = path;
    ASSERT_TRUE(absl::ConsumePrefix(&field, "metadata.")) << path;
    argv.push_back(absl::StrCat(variable["name"].get<std::string>(), "=",
                                (*pod)["metadata"][std::string(field)].get<std::string>()));
  }
  EXPECT_EQ(argv.size(), 4u);
  for (const std::string& word :
       {RunfilePath("core/cli/millrace"), std::string("resolve"), std::string("kubernetes"),
        std::string("--location=off_cluster"), absl::StrCat("--kubeconfig=", kubeconfig_),
        std::string("--job=worker=app=train,role=worker"), std::string("--format=tf_config")}) {
    argv.push_back(word);
  }
  const auto resolve = ChildProcess::Start(argv);
  ASSERT_THAT(resolve, IsOk());
  const auto line = (*resolve)->WaitForLine("{", kLong);
  ASSERT_THAT(line, IsOk());
  const Json task = (*ParseJson(*line))["task"];
  EXPECT_EQ(task["type"], "worker");
  EXPECT_EQ(task["index"], 2);
}

}  // namespace
}  // namespace millrace
