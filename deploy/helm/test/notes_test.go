package test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/coordsvc/coordsvc/internal/kafkatest"
)

// notes are what helm install prints at the end.
func notes(t *testing.T, args ...string) string {
	t.Helper()
	out, errs, err := helm(helms["Helm 4"], append([]string{"install", "release", chart, "--namespace", "kafka-tools", "--dry-run=client"}, args...)...)
	require.NoError(t, err, "%s", errs)
	_, text, found := strings.Cut(out, "\nNOTES:\n")
	require.True(t, found)
	return text
}

// notesOfHelm3 are the same out of Helm 3, which installs nothing without a cluster, not
// even for show: here they are rendered as an object.
func notesOfHelm3(t *testing.T, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(chart)))
	require.NoError(t, os.Rename(dir+"/templates/NOTES.txt", dir+"/NOTES.txt"))
	const template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes}\ndata: {text: {{ tpl (.Files.Get \"NOTES.txt\") . | toJson }}}\n"
	require.NoError(t, os.WriteFile(dir+"/templates/notes.yaml", []byte(template), 0o600))
	out, errs, err := helm(helms["Helm 3"], append([]string{"template", "release", dir, "--namespace", "kafka-tools", "--show-only", "templates/notes.yaml"}, args...)...)
	require.NoError(t, err, "%s", errs)
	return one[*corev1.ConfigMap](t, decode(t, out)).Data["text"]
}

var (
	forwarded = regexp.MustCompile(`port-forward service/(\S+) \d+:(\d+) \d+:(\d+) `)
	rolledOut = regexp.MustCompile(`deployment/(\S+)`)
	resolved  = regexp.MustCompile(`dns:///([^.]+)\.kafka-tools\.svc:(\d+)`)
)

// TestNotes: the notes name objects and ports that are there, whatever the values.
func TestNotes(t *testing.T) {
	for name, path := range valuesFiles(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := notes(t, "--values", path)
			require.Equal(t, strings.TrimSpace(text), strings.TrimSpace(notesOfHelm3(t, "--values", path)))
			require.NotRegexp(t, `%!|<nil>|map\[|<no value>`, text)
			objects := decode(t, render(t, helms["Helm 4"], "release", "--values", path))

			forward := forwarded.FindStringSubmatch(text)
			require.NotNil(t, forward)
			service := named[*corev1.Service](t, objects, forward[1])
			require.Equal(t, fmt.Sprint(portNamed(t, service, "http").Port), forward[2])
			require.Equal(t, fmt.Sprint(portNamed(t, service, "grpc").Port), forward[3])
			for _, match := range rolledOut.FindAllStringSubmatch(text, -1) {
				named[*appsv1.Deployment](t, objects, match[1])
			}
			for _, match := range resolved.FindAllStringSubmatch(text, -1) {
				headless := named[*corev1.Service](t, objects, match[1])
				require.Equal(t, fmt.Sprint(portNamed(t, headless, "grpc").Port), match[2])
			}
			require.Equal(t, len(all[*corev1.Pod](objects)), strings.Count(text, "helm test release"))
		})
	}
}

// TestNotesLowPorts: ports below 1024, which are root's, get others on the user's machine.
func TestNotesLowPorts(t *testing.T) {
	text := notes(t, append([]string{"--values", valuesFiles(t)["tls"]}, file(t, `config: {http: {address: ":443"}, grpc: {address: ":0080"}}`)...)...)
	require.Contains(t, text, "port-forward service/release-coordsvc 10443:8080 10080:9090 &")
	require.Contains(t, text, "--connect-to ::127.0.0.1:10443 ")
	require.Contains(t, text, "https://release-coordsvc.kafka-tools.svc:10443/v1/")
	require.Contains(t, text, " 127.0.0.1:10080 coordsvc.v1.")
	require.Contains(t, text, "dns:///release-coordsvc-headless.kafka-tools.svc:80 ")
}

// TestNotesCommands runs the commands of the notes as they stand there, on the product
// itself. In place of a cluster a script answers to the name kubectl: ports are not
// forwarded but those of the service itself, Secrets are files.
func TestNotesCommands(t *testing.T) {
	program := filepath.Join(t.TempDir(), "coordsvc")
	build := exec.Command("go", "build", "-o", program, "./cmd/coordsvc")
	build.Dir = "../../.."
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	const host = "release-coordsvc.kafka-tools.svc"
	servers, clients := kafkatest.NewAuthority(t, "servers"), kafkatest.NewAuthority(t, "clients")
	server, client := servers.Issue(host, host), clients.Issue("dashboard", "dashboard")
	secrets := map[string]map[string][]byte{
		"coordsvc-tls":     {"tls.crt": server.CertPEM, "tls.key": server.KeyPEM, "ca.crt": servers.PEM},
		"clients-ca":       {"ca.crt": clients.PEM},
		"coordsvc-callers": {"tokens.txt": []byte("# who: token\ndashboard:0123456789abcdef0123456789abcdef\n")},
	}
	const tls = "config: {tls: {enabled: true}}\nsecrets: {serverTLS: {name: coordsvc-tls}, "
	for name, values := range map[string]string{
		"plain":         "",
		"no reflection": "config: {grpc: {reflection: false}}",
		"TLS":           tls + "}",
		"tokens":        tls + "tokens: {name: coordsvc-callers, key: tokens.txt}}",
		"tokens alone":  "secrets: {tokens: {name: coordsvc-callers, key: tokens.txt}}",
		"certificates":  strings.Replace(tls, "enabled: true", "enabled: true, client-auth: require", 1) + "clientCA: {name: clients-ca}}\npolicy: {rules: [{callers: [\"cert:dashboard\"], prefixes: [orders]}]}",
	} {
		t.Run(name, func(t *testing.T) {
			brokers := kafkatest.Fake(t, 3).ListenAddrs()
			ports := freePorts(t, 3)
			args := slices.Concat(file(t, values), []string{"--set", "config.kafka.brokers={" + strings.Join(brokers, ",") + "}",
				"--set", "config.http.address=:" + ports[0], "--set", "config.grpc.address=:" + ports[1], "--set", "config.admin.address=:" + ports[2]})
			objects := decode(t, render(t, helms["Helm 4"], "release", args...))
			dir := t.TempDir()
			writeMounted(t, objects, secrets, dir)
			config := filepath.Join(dir, "config/coordsvc.yaml")
			runService(t, program, config, ports[2])
			runTestPod(t, objects, program, config)

			work := t.TempDir()
			require.NoError(t, os.WriteFile(work+"/client.crt", client.CertPEM, 0o600))
			require.NoError(t, os.WriteFile(work+"/client.key", client.KeyPEM, 0o600))
			require.NoError(t, os.CopyFS(work+"/api", os.DirFS("../../../api")))
			said := runNotes(t, notes(t, args...), work, secrets, "PROGRAM="+program, "COORDSVC_CONFIG="+config)
			require.Equal(t, 1, strings.Count(said, `{"result":{"key":"orders","coordinator":`), "REST:\n%s", said)
			require.Equal(t, 1, strings.Count(said, "\"results\": [\n"), "gRPC:\n%s", said)
			require.Contains(t, said, "kafka.brokers", "config")
			require.Contains(t, said, "FINDCOORDINATOR", "brokers")
		})
	}
}

func freePorts(t *testing.T, n int) []string {
	t.Helper()
	var ports []string
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer listener.Close()
		_, port, err := net.SplitHostPort(listener.Addr().String())
		require.NoError(t, err)
		ports = append(ports, port)
	}
	return ports
}

// writeMounted writes what the Pod's volumes hold under dir instead of /etc/coordsvc.
func writeMounted(t *testing.T, objects []object, secrets map[string]map[string][]byte, dir string) {
	t.Helper()
	write := func(mountPath, name string, content []byte) {
		path := filepath.Join(dir, strings.TrimPrefix(mountPath, "/etc/coordsvc"), name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, content, 0o600))
	}
	pod := one[*appsv1.Deployment](t, objects).Spec.Template.Spec
	for _, m := range pod.Containers[0].VolumeMounts {
		for _, v := range pod.Volumes {
			switch {
			case v.Name != m.Name:
			case v.Secret != nil:
				for _, item := range v.Secret.Items {
					require.Contains(t, secrets[v.Secret.SecretName], item.Key)
					write(m.MountPath, item.Path, secrets[v.Secret.SecretName][item.Key])
				}
			default:
				for key, text := range named[*corev1.ConfigMap](t, objects, v.ConfigMap.Name).Data {
					write(m.MountPath, key, []byte(strings.ReplaceAll(text, "/etc/coordsvc", dir)))
				}
			}
		}
	}
}

// runService runs what the container runs, until the end of the test.
func runService(t *testing.T, program, config, adminPort string) {
	t.Helper()
	cmd := exec.Command(program, "serve", "--shutdown-drain-delay", "0s")
	cmd.Env = []string{"COORDSVC_CONFIG=" + config}
	var log bytes.Buffer
	cmd.Stderr = &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the service ended with %v\n%s", err, log.String())
		}
	})
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		resp, err := http.Get("http://127.0.0.1:" + adminPort + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("the service is not ready after 20 s\n%s", log.String())
}

// runTestPod runs what helm test runs in the cluster, where the headless Service has a name.
func runTestPod(t *testing.T, objects []object, program, config string) {
	t.Helper()
	said := ""
	for _, c := range one[*corev1.Pod](t, objects).Spec.Containers {
		for i := range c.Args {
			c.Args[i] = strings.ReplaceAll(c.Args[i], "release-coordsvc-headless.kafka-tools.svc", "127.0.0.1")
		}
		cmd := exec.Command(program, c.Args...)
		cmd.Env = []string{"COORDSVC_CONFIG=" + config}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %v: %s", c.Name, c.Args, out)
		said += string(out)
	}
	require.Contains(t, said, "FINDCOORDINATOR")
	require.Contains(t, said, "ready")
}

const kubectl = `#!/bin/sh
[ "$1 $2" = "-n kafka-tools" ] || exit 1
case "$3" in
rollout | port-forward) ;;
get) key=$(echo "$7" | sed 's/^jsonpath={.data.\(.*\)}$/\1/; s/\\//g'); base64 -w 0 <"$SECRETS/$5/$key" ;;
exec) while [ "$1" != /coordsvc ]; do shift; done; shift; exec "$PROGRAM" "$@" ;;
*) exit 1 ;;
esac
`

// runNotes runs the commands of the notes, which are what is indented, and returns what they print.
func runNotes(t *testing.T, text, work string, secrets map[string]map[string][]byte, environ ...string) string {
	t.Helper()
	bin, secretsDir := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(bin+"/kubectl", []byte(kubectl), 0o700)) //nolint:gosec // it is to be run
	for name, files := range secrets {
		require.NoError(t, os.Mkdir(filepath.Join(secretsDir, name), 0o700))
		for key, content := range files {
			require.NoError(t, os.WriteFile(filepath.Join(secretsDir, name, key), content, 0o600))
		}
	}
	script := "set -e\n"
	for line := range strings.Lines(text) {
		command, _ := strings.CutPrefix(line, "  ")
		switch word, _, _ := strings.Cut(command, " "); {
		case !strings.HasPrefix(line, "  "), word == "", word == "REST", word == "gRPC": // text
		case word == "helm": // helm test needs a cluster
		default:
			script += command
		}
	}
	require.Contains(t, script, "\ncurl ")
	require.Contains(t, script, "\ngrpcurl ")
	tools, err := filepath.Abs("../../../.tools")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir = work
	cmd.Env = slices.Concat(environ, []string{"PATH=" + strings.Join([]string{bin, tools, os.Getenv("PATH")}, ":"), "SECRETS=" + secretsDir})
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\nsaid\n%s", script, out)
	return string(out)
}
