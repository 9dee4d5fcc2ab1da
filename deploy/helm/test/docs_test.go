package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

const (
	// helm renders in place of installing, a numbered file each time.
	helmOfDocs = `#!/bin/sh
set -e
case "$1" in
upgrade)
	shift
	[ "$1" = --install ] && shift
	n=$(ls "$RENDERED" | wc -l)
	exec "$HELM" template "$@" >"$RENDERED/$n.yaml"
	;;
test) ;;
*) exit 1 ;;
esac
`
	kubectlOfDocs = `#!/bin/sh
echo "$*" >>"$KUBECTL_LOG"
`
)

// TestDocs runs the steps of docs/kubernetes.md as they stand there, one after the other,
// but for the cluster: what would be installed is rendered, and looked at here.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../../docs/kubernetes.md")
	require.NoError(t, err)
	var script strings.Builder
	script.WriteString("set -e\n")
	steps := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.Len(t, steps, 7)
	for _, step := range steps {
		script.WriteString(step[1])
	}
	for helmName, program := range helms {
		t.Run(helmName, func(t *testing.T) {
			work, bin, rendered := t.TempDir(), t.TempDir(), t.TempDir()
			log := filepath.Join(t.TempDir(), "kubectl")
			require.NoError(t, os.WriteFile(bin+"/helm", []byte(helmOfDocs), 0o700))       //nolint:gosec // it is to be run
			require.NoError(t, os.WriteFile(bin+"/kubectl", []byte(kubectlOfDocs), 0o700)) //nolint:gosec // it is to be run
			require.NoError(t, os.CopyFS(work+"/deploy/helm/coordsvc", os.DirFS(chart)))
			absolute, err := filepath.Abs(program)
			require.NoError(t, err)
			cmd := exec.Command("sh", "-c", script.String())
			cmd.Dir = work
			cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HELM=" + absolute, "RENDERED=" + rendered, "KUBECTL_LOG=" + log, "HOME=/nonexistent"}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)

			files, err := filepath.Glob(rendered + "/*.yaml")
			require.NoError(t, err)
			require.Len(t, files, 7)
			kubectlLog, err := os.ReadFile(log)
			require.NoError(t, err)
			checkDocs(t, work, files, string(kubectlLog))
		})
	}
}

func checkDocs(t *testing.T, work string, files []string, kubectlLog string) {
	t.Helper()
	var last []object
	certificates := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		documents := separator.Split(string(text), -1)
		documents = slices.DeleteFunc(documents, func(document string) bool {
			certificate := strings.Contains(document, "\nkind: Certificate\n") // its type is not among those that are decoded
			if certificate {
				require.Regexp(t, `(?s)dnsNames:.*coordsvc\.kafka-tools\.svc'?\n.*coordsvc-headless\.kafka-tools\.svc`, document)
				certificates++
			}
			return certificate
		})
		last = decode(t, strings.Join(documents, "---\n"))
		deployment := one[*appsv1.Deployment](t, last)
		require.Equal(t, "coordsvc", deployment.Name)
		require.Contains(t, deployment.Spec.Template.Spec.Containers[0].Image, "registry.example/coordsvc:")
		checkSelectors(t, last, deployment)
		checkPorts(t, last, deployment)
		checkSettings(t, last, deployment)
		checkScaling(t, last, deployment)
		checkPodSecurity(t, last)
		for _, v := range deployment.Spec.Template.Spec.Volumes {
			if v.Secret != nil && v.Secret.SecretName != "coordsvc-tls" { // that one cert-manager makes
				require.Contains(t, kubectlLog, "create secret generic "+v.Secret.SecretName+" --from-file="+v.Secret.Items[0].Key)
			}
		}
	}
	require.Equal(t, 5, certificates)
	// What the title promises: secured, scraped, autoscaled.
	settings := settingsOf(t, last, one[*appsv1.Deployment](t, last))
	require.True(t, settings.TLS.Enabled)
	require.NotEmpty(t, settings.Auth.TokenFile)
	require.NotEmpty(t, settings.Auth.PolicyFile)
	require.Len(t, one[*networkingv1.NetworkPolicy](t, last).Spec.PolicyTypes, 2)
	one[*monitoringv1.ServiceMonitor](t, last)
	one[*monitoringv1.PrometheusRule](t, last)
	one[*autoscalingv2.HorizontalPodAutoscaler](t, last)
	named[*corev1.ConfigMap](t, last, "coordsvc-dashboard")
	tokens, err := os.ReadFile(work + "/tokens")
	require.NoError(t, err)
	require.Regexp(t, `^dashboard:[0-9a-f]{64}\norders-service:[0-9a-f]{64}\n$`, string(tokens))
}

// TestDocsValues renders the values that docs/kubernetes.md shows without a command.
func TestDocsValues(t *testing.T) {
	text, err := os.ReadFile("../../../docs/kubernetes.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.Len(t, blocks, 1)
	objects := decode(t, render(t, helms["Helm 4"], "coordsvc", append([]string{"--values", valuesFiles(t)["plain"]}, file(t, blocks[0][1])...)...))
	one[*gatewayv1.HTTPRoute](t, objects)
	one[*gatewayv1.GRPCRoute](t, objects)
}

var secondsRow = regexp.MustCompile(`(?m)^\| (\d+)[^|]*\|[^|]*\| ([^|]*)\|$`)

// TestDocsTimes holds the table of a stopping Pod's times against what is rendered.
func TestDocsTimes(t *testing.T) {
	text, err := os.ReadFile("../../../docs/kubernetes.md")
	require.NoError(t, err)
	var seconds []string
	for _, row := range secondsRow.FindAllStringSubmatch(string(text), -1) {
		seconds = append(seconds, row[1])
	}
	objects := decode(t, render(t, helms["Helm 4"], "coordsvc", "--values", valuesFiles(t)["plain"]))
	deployment := one[*appsv1.Deployment](t, objects)
	pod, shutdown := deployment.Spec.Template.Spec, settingsOf(t, objects, deployment).Shutdown
	preStop := int(pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds)
	drained := preStop + int(shutdown.DrainDelay.Seconds())
	require.Equal(t, []string{"0", strconv.Itoa(preStop), strconv.Itoa(drained), strconv.Itoa(drained + int(shutdown.DrainTimeout.Seconds())), strconv.Itoa(int(*pod.TerminationGracePeriodSeconds))}, seconds)
	require.Contains(t, string(text), "and 35 seconds more, "+strconv.Itoa(int(deployment.Spec.MinReadySeconds))+" unless changed")
}
