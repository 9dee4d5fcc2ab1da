// Package test renders the chart with Helm 4 and Helm 3 as a user would, and looks at
// what comes out as the Kubernetes API sees it: typed and strictly decoded.
//
// It is built on the types of the newest release of Kubernetes. With -modfile=oldest.mod
// TestObjects, and the tests of what it checks with, run on those of the oldest release
// that is in support: make chart-test-offline does both.
package test

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

const chart = "../coordsvc"

// helms are the programs to render with, by name.
var helms = map[string]string{"Helm 4": "../../../.tools/helm4", "Helm 3": "../../../.tools/helm3"}

// The releases of Kubernetes to render for: the oldest in support and the newest.
var kubeVersions = []string{"1.34.0", "1.37.0"}

func TestMain(m *testing.M) {
	for name, program := range helms {
		if _, err := os.Stat(program); err != nil {
			os.Stderr.WriteString(name + " is not there: run make tools\n")
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// valuesFiles are the files of ../coordsvc/ci, by what they are called.
func valuesFiles(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob(chart + "/ci/*-values.yaml")
	require.NoError(t, err)
	named := map[string]string{}
	for _, file := range files {
		named[strings.TrimSuffix(filepath.Base(file), "-values.yaml")] = file
	}
	require.Subset(t, slices.Collect(maps.Keys(named)),
		[]string{"plain", "tls", "mtls", "sasl", "oidc", "hpa", "gateway", "everything-on", "everything-off"})
	return named
}

// helm runs a command of Helm that needs no cluster.
func helm(program string, args ...string) (stdout, stderr string, err error) {
	cmd := exec.Command(program, args...)
	// No cluster, no plugins and no settings of this machine.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "KUBECONFIG=/nonexistent"}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// render is what "helm template RELEASE" prints.
func render(t testing.TB, program, release string, args ...string) string {
	t.Helper()
	out, errs, err := helm(program, append([]string{"template", release, chart, "--namespace", "kafka-tools"}, args...)...)
	require.NoError(t, err, "%s", errs)
	return out
}

// file writes values to a file and returns the arguments that name it. The name of the
// test is in the path, so that it may hold no comma: Helm would see two files.
func file(t testing.TB, values string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(path, []byte(values), 0o600))
	return []string{"--values", path}
}

// An object that the chart makes.
type object interface {
	metav1.Object
	runtime.Object
}

// decoder knows the kinds that the chart makes, and takes no field that they do not have.
var decoder = func() *json.Serializer {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, autoscalingv2.AddToScheme, networkingv1.AddToScheme,
		gatewayv1.Install, monitoringv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
}()

var separator = regexp.MustCompile(`(?m)^---.*\n`)

// decode is the objects of a rendered chart.
func decode(t testing.TB, rendered string) []object {
	t.Helper()
	var objects []object
	for _, text := range separator.Split(rendered, -1) {
		if strings.TrimSpace(regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(text, "")) == "" {
			continue
		}
		decoded, _, err := decoder.Decode([]byte(text), nil, nil)
		require.NoError(t, err, "%.300s", text)
		objects = append(objects, decoded.(object))
	}
	return objects
}

// all are the objects of a kind.
func all[T object](objects []object) []T {
	var found []T
	for _, o := range objects {
		if o, ok := o.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// one is the only object of a kind.
func one[T object](t testing.TB, objects []object) T {
	t.Helper()
	found := all[T](objects)
	require.Len(t, found, 1)
	return found[0]
}

// named is the object of a kind with a name.
func named[T object](t testing.TB, objects []object, name string) T {
	t.Helper()
	for _, o := range all[T](objects) {
		if o.GetName() == name {
			return o
		}
	}
	var none T
	t.Fatalf("there is no %T called %s", none, name)
	return none
}

// eachFile runs a test for every values file, Helm and release of Kubernetes.
func eachFile(t *testing.T, test func(t *testing.T, objects []object)) {
	t.Helper()
	for name, path := range valuesFiles(t) {
		for helmName, program := range helms {
			for _, kube := range kubeVersions {
				t.Run(name+"/"+helmName+"/"+kube, func(t *testing.T) {
					t.Parallel()
					test(t, decode(t, render(t, program, "release", "--values", path, "--kube-version", kube)))
				})
			}
		}
	}
}
