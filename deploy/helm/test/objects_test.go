package test

import (
	"maps"
	"net"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/coordsvc/coordsvc/internal/config"
)

// TestObjects checks what must hold whatever the values are.
func TestObjects(t *testing.T) {
	eachFile(t, func(t *testing.T, objects []object) {
		deployment := one[*appsv1.Deployment](t, objects)
		checkMetadata(t, objects)
		checkSelectors(t, objects, deployment)
		checkPorts(t, objects, deployment)
		checkMounts(t, deployment.Spec.Template.Spec)
		checkSettings(t, objects, deployment)
		checkScaling(t, objects, deployment)
		for _, pod := range all[*corev1.Pod](objects) {
			checkMounts(t, pod.Spec)
		}
		checkPodSecurity(t, objects)
	})
}

func checkMetadata(t *testing.T, objects []object) {
	t.Helper()
	seen := map[string]bool{}
	for _, o := range objects {
		kind := o.GetObjectKind().GroupVersionKind().Kind
		require.False(t, seen[kind+o.GetName()], "%s %s is there twice", kind, o.GetName())
		seen[kind+o.GetName()] = true
		require.Empty(t, validation.IsDNS1035Label(o.GetName()), "%s %s", kind, o.GetName())
		if strings.HasSuffix(o.GetName(), "-extra") || strings.HasSuffix(o.GetName(), "-text") {
			continue // a user's own
		}
		require.Equal(t, "kafka-tools", o.GetNamespace(), "%s %s", kind, o.GetName())
		require.Subset(t, slices.Collect(maps.Keys(o.GetLabels())), []string{
			"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart",
		}, "%s %s", kind, o.GetName())
		checkLabels(t, o.GetLabels())
	}
}

func checkLabels(t *testing.T, m map[string]string) {
	t.Helper()
	for k, v := range m {
		require.Empty(t, validation.IsQualifiedName(k), k)
		require.Empty(t, validation.IsValidLabelValue(v), "%s: %s", k, v)
	}
}

// checkSelectors: what selects Pods selects those of the Deployment, and not those of helm test.
func checkSelectors(t *testing.T, objects []object, deployment *appsv1.Deployment) {
	t.Helper()
	checkLabels(t, deployment.Spec.Template.Labels)
	selects := func(what string, selector map[string]string) {
		t.Helper()
		require.NotEmpty(t, selector, what)
		require.True(t, labels.SelectorFromSet(selector).Matches(labels.Set(deployment.Spec.Template.Labels)), "%s selects no Pod", what)
		for _, pod := range all[*corev1.Pod](objects) {
			require.False(t, labels.SelectorFromSet(selector).Matches(labels.Set(pod.Labels)), "%s selects the Pod of helm test", what)
		}
	}
	selects("Deployment", deployment.Spec.Selector.MatchLabels)
	for _, s := range all[*corev1.Service](objects) {
		selects("Service", s.Spec.Selector)
	}
	for _, b := range all[*policyv1.PodDisruptionBudget](objects) {
		selects("PodDisruptionBudget", b.Spec.Selector.MatchLabels)
	}
	for _, p := range all[*networkingv1.NetworkPolicy](objects) {
		selects("NetworkPolicy", p.Spec.PodSelector.MatchLabels)
		checkTestIsLetIn(t, p, all[*corev1.Pod](objects))
	}
	for _, m := range all[*monitoringv1.PodMonitor](objects) {
		selects("PodMonitor", m.Spec.Selector.MatchLabels)
	}
	for _, m := range all[*monitoringv1.ServiceMonitor](objects) {
		var found []string
		for _, s := range all[*corev1.Service](objects) {
			if labels.SelectorFromSet(m.Spec.Selector.MatchLabels).Matches(labels.Set(s.Labels)) {
				found = append(found, s.Name)
				require.Equal(t, m.Spec.Endpoints[0].Port, portNamed(t, s, "admin").Name)
			}
		}
		require.Len(t, found, 1, "each Pod must be scraped once")
	}
}

// checkTestIsLetIn: the Pod of helm test, which asks the admin port, is among those that may.
func checkTestIsLetIn(t *testing.T, p *networkingv1.NetworkPolicy, tests []*corev1.Pod) {
	t.Helper()
	for _, rule := range p.Spec.Ingress {
		if rule.Ports[0].Port.StrVal != "admin" || len(rule.From) == 0 {
			continue
		}
		for _, pod := range tests {
			require.True(t, slices.ContainsFunc(rule.From, func(from networkingv1.NetworkPolicyPeer) bool {
				return from.PodSelector != nil && from.NamespaceSelector == nil && len(from.PodSelector.MatchLabels) > 0 &&
					labels.SelectorFromSet(from.PodSelector.MatchLabels).Matches(labels.Set(pod.Labels))
			}), "helm test may not ask the admin port")
		}
	}
}

func portNamed(t *testing.T, s *corev1.Service, name string) corev1.ServicePort {
	t.Helper()
	for _, p := range s.Spec.Ports {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("Service %s has no port %s", s.Name, name)
	return corev1.ServicePort{}
}

// checkPorts: who points at a port points at one that is there.
func checkPorts(t *testing.T, objects []object, deployment *appsv1.Deployment) {
	t.Helper()
	container := deployment.Spec.Template.Spec.Containers[0]
	ports := map[string]int32{}
	for _, p := range container.Ports {
		ports[p.Name] = p.ContainerPort
	}
	require.Len(t, ports, 3)
	for _, s := range all[*corev1.Service](objects) {
		for _, p := range s.Spec.Ports {
			require.Equal(t, intstr.FromString(p.Name), p.TargetPort)
			require.Contains(t, ports, p.Name)
			if s.Spec.ClusterIP == corev1.ClusterIPNone {
				require.Equal(t, ports[p.Name], p.Port, "a headless Service cannot map ports")
			} else {
				require.NotEqual(t, "admin", p.Name, "the admin port is for the cluster's own")
			}
		}
	}
	for probe, want := range map[*corev1.Probe]string{container.StartupProbe: "/livez", container.LivenessProbe: "/livez", container.ReadinessProbe: "/readyz"} {
		require.Equal(t, want, probe.HTTPGet.Path)
		require.Equal(t, intstr.FromString("admin"), probe.HTTPGet.Port)
		require.Empty(t, probe.HTTPGet.Scheme, "the admin port is plain HTTP whatever the others are")
	}
	for _, i := range all[*networkingv1.Ingress](objects) {
		for _, rule := range i.Spec.Rules {
			backend := rule.HTTP.Paths[0].Backend.Service
			service := named[*corev1.Service](t, objects, backend.Name)
			require.True(t, strings.HasSuffix(i.Name, "-"+portNamed(t, service, backend.Port.Name).Name))
		}
	}
	backends := map[string]gatewayv1.BackendObjectReference{}
	for _, r := range all[*gatewayv1.HTTPRoute](objects) {
		backends["http"] = r.Spec.Rules[0].BackendRefs[0].BackendObjectReference
	}
	for _, r := range all[*gatewayv1.GRPCRoute](objects) {
		backends["grpc"] = r.Spec.Rules[0].BackendRefs[0].BackendObjectReference
	}
	for port, backend := range backends {
		service := named[*corev1.Service](t, objects, string(backend.Name))
		require.EqualValues(t, portNamed(t, service, port).Port, *backend.Port)
	}
	for _, p := range all[*networkingv1.NetworkPolicy](objects) {
		var open []string
		for _, rule := range p.Spec.Ingress {
			open = append(open, rule.Ports[0].Port.StrVal)
		}
		require.ElementsMatch(t, []string{"grpc", "http", "admin"}, open)
	}
}

// checkMounts: each mount has its volume, and no two volumes one name.
func checkMounts(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		require.False(t, volumes[v.Name], "volume %s is there twice", v.Name)
		require.Empty(t, validation.IsDNS1123Label(v.Name))
		volumes[v.Name] = true
	}
	for _, c := range pod.Containers {
		at := map[string]bool{}
		for _, m := range c.VolumeMounts {
			require.True(t, volumes[m.Name], "there is no volume %s", m.Name)
			require.False(t, at[m.MountPath], "two volumes at %s", m.MountPath)
			require.Empty(t, m.SubPath, "files mounted by subPath are never renewed")
			at[m.MountPath] = true
		}
	}
}

// settingsOf loads the settings file as the service in the Pod would.
func settingsOf(t *testing.T, objects []object, deployment *appsv1.Deployment) *config.Loaded {
	t.Helper()
	text := named[*corev1.ConfigMap](t, objects, deployment.Name).Data["coordsvc.yaml"]
	file := filepath.Join(t.TempDir(), "coordsvc.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	loaded, err := config.Load(config.Sources{File: file, Listens: true, Require: []string{"kafka.brokers"}})
	require.NoError(t, err, "%s", text)
	require.Empty(t, loaded.Warnings)
	return loaded
}

// checkSettings: the service accepts the settings, and the objects fit them.
func checkSettings(t *testing.T, objects []object, deployment *appsv1.Deployment) {
	t.Helper()
	loaded := settingsOf(t, objects, deployment)
	pod := deployment.Spec.Template.Spec
	container := pod.Containers[0]
	require.Equal(t, []string{"serve"}, container.Args)

	addresses := map[string]string{"grpc": loaded.GRPC.Address, "http": loaded.HTTP.Address, "admin": loaded.Admin.Address}
	for _, p := range container.Ports {
		_, port, err := net.SplitHostPort(addresses[p.Name])
		require.NoError(t, err)
		require.Equal(t, port, strconv.Itoa(int(p.ContainerPort)))
	}

	var preStop time.Duration
	if container.Lifecycle != nil {
		preStop = time.Duration(container.Lifecycle.PreStop.Sleep.Seconds) * time.Second
	}
	grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second
	stop := preStop + loaded.Shutdown.DrainDelay + loaded.Shutdown.DrainTimeout
	require.GreaterOrEqual(t, grace, stop+5*time.Second)
	require.Less(t, grace, stop+8*time.Second, "the grace period is for what is needed, rounded up")

	files := mountedFiles(t, objects, pod)
	for _, setting := range loaded.Entries() {
		if value := setting.Value; strings.HasSuffix(setting.Path, "-file") && value != "" {
			require.Contains(t, files, value, "%s", setting.Path)
			delete(files, value)
		}
	}
	require.Equal(t, map[string]bool{container.Env[0].Value: true}, files, "mounted, but no setting takes it")
	require.Equal(t, "COORDSVC_CONFIG", container.Env[0].Name)
}

// mountedFiles are the paths of the files of the chart's own ConfigMaps and Secrets.
func mountedFiles(t *testing.T, objects []object, pod corev1.PodSpec) map[string]bool {
	t.Helper()
	files := map[string]bool{}
	for _, m := range pod.Containers[0].VolumeMounts {
		for _, v := range pod.Volumes {
			switch {
			case v.Name != m.Name:
			case v.Secret != nil:
				require.EqualValues(t, 0o440, *v.Secret.DefaultMode)
				for _, item := range v.Secret.Items {
					files[path.Join(m.MountPath, item.Path)] = true
				}
			case v.ConfigMap != nil:
				for key := range named[*corev1.ConfigMap](t, objects, v.ConfigMap.Name).Data {
					files[path.Join(m.MountPath, key)] = true
				}
			}
		}
	}
	return files
}

func checkScaling(t *testing.T, objects []object, deployment *appsv1.Deployment) {
	t.Helper()
	hpas := all[*autoscalingv2.HorizontalPodAutoscaler](objects)
	if len(hpas) == 0 {
		require.NotNil(t, deployment.Spec.Replicas)
		return
	}
	require.Nil(t, deployment.Spec.Replicas, "the autoscaler and Helm would both own replicas")
	require.Equal(t, deployment.Name, hpas[0].Spec.ScaleTargetRef.Name)
	require.Equal(t, "Deployment", hpas[0].Spec.ScaleTargetRef.Kind)
	require.NotEmpty(t, hpas[0].Spec.Metrics)
}

// podSecurity evaluates Pods as the admission of the API server does. The function that
// makes it has another parameter, which may be nil, in newer releases.
func podSecurity(t *testing.T) policy.Evaluator {
	t.Helper()
	makeIt := reflect.ValueOf(policy.NewEvaluator)
	args := []reflect.Value{reflect.ValueOf(policy.DefaultChecks())}
	if makeIt.Type().NumIn() == 2 {
		args = append(args, reflect.Zero(makeIt.Type().In(1)))
	}
	made := makeIt.Call(args)
	require.True(t, made[1].IsNil(), "%v", made[1])
	return made[0].Interface().(policy.Evaluator)
}

// checkPodSecurity evaluates all Pods against the level restricted, as admission would.
func checkPodSecurity(t *testing.T, objects []object) {
	t.Helper()
	evaluator := podSecurity(t)
	check := func(meta *metav1.ObjectMeta, spec *corev1.PodSpec) {
		t.Helper()
		results := evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, meta, spec)
		require.NotEmpty(t, results)
		verdict := policy.AggregateCheckResults(results)
		require.True(t, verdict.Allowed, "%s", verdict.ForbiddenDetail())
		// Beyond what the standard asks for.
		require.False(t, *spec.AutomountServiceAccountToken)
		require.False(t, *spec.EnableServiceLinks)
		require.True(t, *spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem)
		require.Equal(t, &[]int64{65532}[0], spec.SecurityContext.RunAsUser)
	}
	template := one[*appsv1.Deployment](t, objects).Spec.Template
	check(&template.ObjectMeta, &template.Spec)
	for _, pod := range all[*corev1.Pod](objects) {
		check(&pod.ObjectMeta, &pod.Spec)
	}
}

// TestPodSecuritySeesFaults keeps the check above from passing whatever it is given.
func TestPodSecuritySeesFaults(t *testing.T) {
	objects := decode(t, render(t, helms["Helm 4"], "release", "--values", valuesFiles(t)["plain"]))
	template := one[*appsv1.Deployment](t, objects).Spec.Template
	template.Spec.HostNetwork = true
	evaluator := podSecurity(t)
	results := evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &template.ObjectMeta, &template.Spec)
	require.False(t, policy.AggregateCheckResults(results).Allowed)
}

// TestDecodingIsStrict keeps misspelt fields from passing.
func TestDecodingIsStrict(t *testing.T) {
	rendered := render(t, helms["Helm 4"], "release", "--values", valuesFiles(t)["everything-on"])
	for field, wrong := range map[string]string{"revisionHistoryLimit:": "revisionHistoryLimits:", "parentRefs:": "parentrefs:", "jobLabel:": "joblabel:", "seccompProfile:": "secompProfile:"} {
		failed := false
		for _, text := range separator.Split(rendered, -1) {
			if strings.Contains(text, field) {
				_, _, err := decoder.Decode([]byte(strings.ReplaceAll(text, field, wrong)), nil, nil)
				failed = failed || err != nil
			}
		}
		require.True(t, failed, "%s passes", wrong)
	}
}

// A setting's path in a template or in its messages; secrets.kafka... and the like are values.
var settingPath = regexp.MustCompile(`(?:"|[^.a-z]config\.)((?:kafka|pool|lookup|grpc|http|admin|tls|auth|limits|log|tracing|shutdown)\.[-a-z]+(?:\.[-a-z]+)*)`)

var settingWithDefault = regexp.MustCompile(`"([a-z]+\.[-.a-z]+)" "([^"]+)"`)

// TestDefaultsInTemplates holds the settings that templates name, and the defaults
// that they assume, against the service's own.
func TestDefaultsInTemplates(t *testing.T) {
	defaults := map[string]string{}
	for s := range config.All() {
		defaults[s.Path] = s.Default
	}
	files, err := filepath.Glob(chart + "/templates/*")
	require.NoError(t, err)
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the folder of the test Pod
		}
		for _, match := range settingPath.FindAllStringSubmatch(string(text), -1) {
			_, ok := defaults[match[1]]
			require.True(t, ok, "%s: there is no setting %s", file, match[1])
		}
		for _, match := range settingWithDefault.FindAllStringSubmatch(string(text), -1) {
			value, ok := defaults[match[1]]
			if _, another := defaults[match[2]]; !ok || another || strings.HasSuffix(match[1], "-file") {
				continue
			}
			if match[1] == "kafka.sasl.password" || match[1] == "kafka.sasl.oauth.client-secret" {
				continue // the Secret to put it into
			}
			found++
			require.Equal(t, value, match[2], "%s: %s", file, match[1])
		}
	}
	require.Greater(t, found, 8)
}
