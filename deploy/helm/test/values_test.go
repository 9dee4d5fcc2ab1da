package test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coordsvc/coordsvc/internal/config"
)

// TestZeroAndFalse turns every boolean of values.yaml round and every number to zero. Each
// must change what is rendered, or be refused: nothing is dropped for being empty.
func TestZeroAndFalse(t *testing.T) {
	bases := valuesFiles(t)
	program := helms["Helm 4"]
	before := map[string]string{}
	for _, base := range []string{"plain", "everything-on", "hpa"} {
		before[base] = render(t, program, "release", "--values", bases[base])
	}
	podMonitor := file(t, `metrics: {serviceMonitor: {enabled: false}}`)
	cases := 0
	for path, zero := range zeros(t) {
		cases++
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			var said []string
			for base, rendered := range before {
				args := []string{"template", "release", chart, "--namespace", "kafka-tools", "--values", bases[base]}
				if path == "metrics.podMonitor.enabled" {
					args = append(args, podMonitor...)
				}
				out, errs, err := helm(program, append(args, "--set", path+"="+zero)...)
				if err == nil && out != rendered {
					return
				}
				said = append(said, errs)
				// The schema writes /a/b; a group that is switched on may lack what it needs.
				group := strings.TrimSuffix(path, ".enabled")
				if err != nil && (strings.Contains(errs, group) || strings.Contains(errs, strings.ReplaceAll(path, ".", "/"))) {
					return
				}
			}
			t.Fatalf("%s=%s has no effect: %s", path, zero, said)
		})
	}
	require.Greater(t, cases, 50)
}

// zeros are the booleans and numbers among the values, and what to set each to.
func zeros(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(chart + "/values.yaml")
	require.NoError(t, err)
	var values map[string]any
	require.NoError(t, yaml.Unmarshal(text, &values))
	found := map[string]string{}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, member := range v {
				walk(strings.TrimPrefix(at+"."+k, "."), member)
			}
		case bool:
			found[at] = fmt.Sprint(!v)
		case int:
			found[at] = "0"
			if v == 0 {
				found[at] = "1"
			}
		case nil:
			if at != "topologySpreadConstraints" {
				found[at] = "0"
			}
		}
	}
	walk("", values)
	for s := range config.All() {
		switch s.Type() {
		case "boolean":
			found["config."+s.Path] = map[string]string{"true": "false", "false": "true"}[s.Default]
		case "integer", "number":
			found["config."+s.Path] = "0"
		}
	}
	return found
}

// TestEmpty takes each value of values.yaml away, and empties it. It must be refused with
// its name, or render what Kubernetes takes; no template may trip over it.
func TestEmpty(t *testing.T) {
	text, err := os.ReadFile(chart + "/values.yaml")
	require.NoError(t, err)
	var values map[string]any
	require.NoError(t, yaml.Unmarshal(text, &values))
	empty := map[string]string{} // by path
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v.(type) {
		case string:
			empty[at] = `""`
		case []any:
			empty[at] = "[]"
		default:
			empty[at] = "null"
		}
		if members, ok := v.(map[string]any); ok {
			for name, member := range members {
				walk(strings.TrimPrefix(at+"."+name, "."), member)
			}
		}
	}
	walk("", values)
	delete(empty, "")
	for path, nothing := range empty {
		for _, nothing := range slices.Compact([]string{"null", nothing}) {
			t.Run(path+"="+nothing, func(t *testing.T) {
				t.Parallel()
				out, errs, err := helm(helms["Helm 4"], "template", "release", chart, "--namespace", "kafka-tools",
					"--values", valuesFiles(t)["everything-on"], "--set-json", path+"="+nothing)
				if err == nil {
					decode(t, out)
					return
				}
				require.NotContains(t, errs, "executing", "a template broke")
				if strings.HasPrefix(path, "config") { // everything-on needs what is in there
					require.Regexp(t, `\n(  - config\.|- at '/config/)`, errs)
					return
				}
				// The schema says: at '/a': missing property 'b'.
				parent, name := "", path
				if dot := strings.LastIndex(path, "."); dot > 0 {
					parent, name = "/"+strings.ReplaceAll(path[:dot], ".", "/"), path[dot+1:]
				}
				told := strings.Contains(errs, path) || strings.Contains(errs, parent+"/"+name) ||
					strings.Contains(errs, "'"+parent+"'") && strings.Contains(errs, "'"+name+"'")
				require.True(t, told, "%s: nothing names %s", errs, path)
			})
		}
	}
}

// TestZeros looks at single zeros where Kubernetes sees them.
func TestZeros(t *testing.T) {
	for _, program := range helms {
		objects := decode(t, render(t, program, "release", "--values", valuesFiles(t)["everything-off"]))
		require.Len(t, objects, 3, "ConfigMap, Service, Deployment")
		d := one[*appsv1.Deployment](t, objects)
		require.EqualValues(t, 0, *d.Spec.Replicas)
		require.EqualValues(t, 0, *d.Spec.RevisionHistoryLimit)
		require.EqualValues(t, 0, d.Spec.MinReadySeconds)
		require.Nil(t, d.Spec.Template.Spec.Containers[0].Lifecycle)
		require.Empty(t, d.Spec.Template.Spec.TopologySpreadConstraints)
		require.Equal(t, "default", d.Spec.Template.Spec.ServiceAccountName)
		require.EqualValues(t, 6, *d.Spec.Template.Spec.TerminationGracePeriodSeconds, "100 ms, rounded up, and five seconds")
		loaded := settingsOf(t, objects, d)
		require.False(t, loaded.Kafka.DiscoverBrokers)
		require.False(t, loaded.GRPC.Reflection)
		require.False(t, loaded.HTTP.Docs)
		require.Zero(t, loaded.Kafka.MaxAPIVersions)
		require.Zero(t, loaded.Tracing.SampleRatio)
		require.Zero(t, loaded.Shutdown.DrainDelay)
	}
}

// TestSchemaKnowsKubernetes holds the fields that values may have against those of the newest release.
func TestSchemaKnowsKubernetes(t *testing.T) {
	text, err := os.ReadFile(chart + "/values.schema.json")
	require.NoError(t, err)
	var schema map[string]any
	require.NoError(t, yaml.Unmarshal(text, &schema))
	for path, kind := range map[string]any{
		"podSecurityContext":                      corev1.PodSecurityContext{},
		"securityContext":                         corev1.SecurityContext{},
		"securityContext.capabilities":            corev1.Capabilities{},
		"tolerations":                             corev1.Toleration{},
		"topologySpreadConstraints":               corev1.TopologySpreadConstraint{},
		"topologySpreadConstraints.labelSelector": metav1.LabelSelector{},
		"topologySpreadConstraints.labelSelector.matchExpressions": metav1.LabelSelectorRequirement{},
		"affinity":                              corev1.Affinity{},
		"affinity.nodeAffinity":                 corev1.NodeAffinity{},
		"affinity.podAntiAffinity":              corev1.PodAntiAffinity{},
		"autoscaling.metrics":                   autoscalingv2.MetricSpec{},
		"autoscaling.behavior":                  autoscalingv2.HorizontalPodAutoscalerBehavior{},
		"autoscaling.behavior.scaleUp":          autoscalingv2.HPAScalingRules{},
		"autoscaling.behavior.scaleUp.policies": autoscalingv2.HPAScalingPolicy{},
		"extraEnv":                              corev1.EnvVar{},
		"networkPolicy.egress.extra":            networkingv1.NetworkPolicyEgressRule{},
		"networkPolicy.egress.extra.ports":      networkingv1.NetworkPolicyPort{},
		"resources":                             corev1.ResourceRequirements{},
	} {
		at := schema
		for name := range strings.SplitSeq(path, ".") {
			at = at["properties"].(map[string]any)[name].(map[string]any)
			if items, ok := at["items"].(map[string]any); ok {
				at = items
			}
		}
		var want []string
		for field := range reflect.TypeOf(kind).Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			want = append(want, name)
		}
		require.ElementsMatch(t, want, slices.Collect(maps.Keys(at["properties"].(map[string]any))), path)
	}
}

// TestLargeNumbers: Helm holds numbers as floating point, and must not write them so.
func TestLargeNumbers(t *testing.T) {
	values := "config: {lookup: {max-keys: 1000000}, limits: {max-waiting-keys: 100000000}}\npodDisruptionBudget: {enabled: false}\nreplicaCount: 2000000"
	for _, program := range helms {
		objects := decode(t, render(t, program, "release", append([]string{"--values", valuesFiles(t)["plain"]}, file(t, values)...)...))
		d := one[*appsv1.Deployment](t, objects)
		require.EqualValues(t, 2000000, *d.Spec.Replicas)
		require.Equal(t, 1000000, settingsOf(t, objects, d).Lookup.MaxKeys)
		require.Equal(t, 100000000, settingsOf(t, objects, d).Limits.MaxWaitingKeys)
	}
}

// TestDurations: the seconds that the templates make of Go's durations.
func TestDurations(t *testing.T) {
	for text, seconds := range map[string]int64{
		"0s": 0, "5s": 5, "1m30s": 90, "1.5m": 90, "100ms": 1, "1s1ns": 2, "2m0.5s": 121, "1h": 3600, "0.1s": 1, "59m60s": 3600,
		"1500000us": 2, "300ms700ms": 1, "1.s": 1,
	} {
		_, err := time.ParseDuration(text)
		require.NoError(t, err)
		values := fmt.Sprintf(`{preStopSleepSeconds: 0, config: {shutdown: {drain-timeout: %q, drain-delay: 0s}}}`, text)
		if text == "0s" { // too little for a timeout
			values = `{preStopSleepSeconds: 0, config: {shutdown: {drain-timeout: 1s, drain-delay: 0s}}}`
			seconds = 1
		}
		out := render(t, helms["Helm 4"], "release", append([]string{"--values", valuesFiles(t)["plain"]}, file(t, values)...)...)
		grace := one[*appsv1.Deployment](t, decode(t, out)).Spec.Template.Spec.TerminationGracePeriodSeconds
		require.Equal(t, seconds+5, *grace, text)
	}
}

// TestDurationsLikeGo holds the templates' reading of durations against Go's own, a thousand at a time.
func TestDurationsLikeGo(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var want []string
	var template strings.Builder
	template.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: durations-text}\ndata:\n")
	for i := range 1000 {
		most := []time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour, 168 * time.Hour}[i%5]
		d := time.Duration(random.Int64N(int64(most)))
		if i%2 == 0 {
			d = d.Round(time.Millisecond)
		}
		want = append(want, strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10))
		fmt.Fprintf(&template, "  d%04d: '{{ include \"coordsvc.seconds\" \"%s\" }}'\n", i, d)
	}
	values, err := yaml.Marshal(map[string]any{"extraObjects": []string{template.String()}})
	require.NoError(t, err)
	objects := decode(t, render(t, helms["Helm 4"], "release", slices.Concat([]string{"--values", valuesFiles(t)["plain"]}, file(t, string(values)))...))
	data := named[*corev1.ConfigMap](t, objects, "durations-text").Data
	var got []string
	for _, key := range slices.Sorted(maps.Keys(data)) {
		got = append(got, data[key])
	}
	require.Equal(t, want, got)
}

// TestReleaseNames: names that YAML would read as something else, or that no Service may have.
func TestReleaseNames(t *testing.T) {
	long := strings.Repeat("r", 53) // Helm allows no longer one
	for release, want := range map[string]string{
		"y": "y-coordsvc", "on": "on-coordsvc", "no": "no-coordsvc", "true": "true-coordsvc", "null": "null-coordsvc",
		"1": "coordsvc-1", "1e3": "coordsvc-1e3", "0x1f": "coordsvc-0x1f", "a.b": "a-b-coordsvc", "coordsvc": "coordsvc",
		"my-coordsvc-2": "my-coordsvc-2", "2-coordsvc": "coordsvc-2-coordsvc", long: long,
		"1" + long[:41] + "--a": "coordsvc-1" + long[:41], // cut within the dashes
	} {
		for helmName, program := range helms {
			t.Run(release+"/"+helmName, func(t *testing.T) {
				t.Parallel()
				objects := decode(t, render(t, program, release, "--values", valuesFiles(t)["plain"], "--values", everythingNamed(t)))
				d := one[*appsv1.Deployment](t, objects)
				require.Equal(t, want, d.Name)
				require.Equal(t, release, d.Spec.Selector.MatchLabels["app.kubernetes.io/instance"])
				checkMetadata(t, objects)
				checkSelectors(t, objects, d)
				checkPorts(t, objects, d)
				for _, o := range objects {
					require.LessOrEqual(t, len(o.GetName()), 63)
				}
			})
		}
	}
}

// everythingNamed switches on all objects that get a name of the release.
func everythingNamed(t *testing.T) string {
	t.Helper()
	return file(t, `
ingress: {http: {enabled: true, hosts: [a.example]}, grpc: {enabled: true, hosts: [b.example]}}
gateway: {httpRoute: {enabled: true, parentRefs: [{name: a}]}, grpcRoute: {enabled: true, parentRefs: [{name: b}]}}
metrics: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}, dashboard: {enabled: true}}
autoscaling: {enabled: true}
secrets: {tokens: {name: "1"}}
policy: {rules: [{callers: ["token:a"], prefixes: [""]}]}
`)[1]
}

// TestChecksum: changed settings make new Pods, a changed policy does not (it is followed).
func TestChecksum(t *testing.T) {
	checksum := func(values string) string {
		out := render(t, helms["Helm 4"], "release", append([]string{"--values", valuesFiles(t)["mtls"]}, file(t, values)...)...)
		return one[*appsv1.Deployment](t, decode(t, out)).Spec.Template.Annotations["checksum/config"]
	}
	plain := checksum("{}")
	require.Len(t, plain, 64)
	require.NotEqual(t, plain, checksum("config: {log: {level: debug}}"))
	require.Equal(t, plain, checksum("policy: {rules: [{callers: ['cert:a'], prefixes: [a]}]}"))
	require.Equal(t, plain, checksum("replicaCount: 5"))
}

// TestDefaults are the promises of the chart's README for one value given.
func TestDefaults(t *testing.T) {
	for _, program := range helms {
		objects := decode(t, render(t, program, "coordsvc", "--set", "config.kafka.brokers={kafka-0:9092,kafka-1:9092}"))
		d := one[*appsv1.Deployment](t, objects)
		require.EqualValues(t, 2, *d.Spec.Replicas)
		require.Equal(t, []string{"kafka-0:9092", "kafka-1:9092"}, settingsOf(t, objects, d).Kafka.Brokers)
		require.Len(t, all[*corev1.Service](objects), 2)
		// The service keeps its heap below the limit that the container has.
		require.False(t, d.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().IsZero())
		require.Len(t, d.Spec.Template.Spec.TopologySpreadConstraints, 2)
		// The next Pod begins to drain once clients have resolved anew after the last one's drain delay.
		require.Equal(t, time.Duration(d.Spec.MinReadySeconds)*time.Second, settingsOf(t, objects, d).Shutdown.DrainDelay+35*time.Second)
		require.Equal(t, "0", d.Spec.Strategy.RollingUpdate.MaxUnavailable.String())
	}
}

// TestLint runs helm lint on every values file, and holds rendering to a second each.
func TestLint(t *testing.T) {
	for name, path := range valuesFiles(t) {
		for helmName, program := range helms {
			t.Run(name+"/"+helmName, func(t *testing.T) {
				out, errs, err := helm(program, "lint", "--strict", chart, "--values", path)
				require.NoError(t, err, "%s%s", out, errs)
				require.NotContains(t, out, "[WARNING]")

				fastest := time.Hour
				for range 5 { // one of five, as the machine may be busy with other things
					began := time.Now()
					render(t, program, "release", "--values", path)
					fastest = min(fastest, time.Since(began))
				}
				t.Logf("rendered in %v", fastest.Round(time.Millisecond))
				require.Less(t, fastest, time.Second)
			})
		}
	}
}

// TestPackage: the packaged chart holds all that it renders from, and none of its checks.
func TestPackage(t *testing.T) {
	for _, program := range helms {
		dir := t.TempDir()
		_, errs, err := helm(program, "package", chart, "--destination", dir)
		require.NoError(t, err, "%s", errs)
		packed, err := filepath.Glob(dir + "/coordsvc-*.tgz")
		require.NoError(t, err)
		require.Len(t, packed, 1)
		values, err := filepath.Abs(valuesFiles(t)["everything-on"])
		require.NoError(t, err)
		out, errs, err := helm(program, "template", "release", packed[0], "--namespace", "kafka-tools", "--values", values)
		require.NoError(t, err, "%s", errs)
		require.Equal(t, render(t, program, "release", "--values", values), out)
	}
}

// TestSubchart: another chart can hold this one, with global values of its own.
func TestSubchart(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(dir+"/charts", 0o700))
	absolute, err := filepath.Abs(chart)
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(dir+"/charts/coordsvc", os.DirFS(absolute)))
	require.NoError(t, os.WriteFile(dir+"/Chart.yaml", []byte("apiVersion: v2\nname: above\nversion: 1.0.0\ndependencies:\n  - {name: coordsvc, version: 0.x, condition: withCoordsvc}\n"), 0o600))
	require.NoError(t, os.WriteFile(dir+"/values.yaml", []byte("withCoordsvc: true\nglobal: {imageRegistry: a.example}\ncoordsvc: {config: {kafka: {brokers: [kafka-0:9092]}}}\n"), 0o600))
	for _, program := range helms {
		out, errs, err := helm(program, "template", "release", dir)
		require.NoError(t, err, "%s", errs)
		require.Contains(t, out, "release-coordsvc")
		out, errs, err = helm(program, "template", "release", dir, "--set", "withCoordsvc=false")
		require.NoError(t, err, "%s", errs)
		require.NotContains(t, out, "release-coordsvc")
	}
}
