package test

import (
	"os"
	"slices"
	"strconv"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// features are what single values do. They come on top of the values file called base.
var features = []struct {
	name, base, values string
	check              func(t *testing.T, objects []object)
}{
	{name: "the tag is the chart's appVersion", base: "plain", check: func(t *testing.T, objects []object) {
		chartVersion := one[*appsv1.Deployment](t, objects).Labels["app.kubernetes.io/version"]
		require.Equal(t, "ghcr.io/coordsvc/coordsvc:"+chartVersion, container(t, objects).Image)
	}},
	{name: "a tag", base: "plain", values: `image: {repository: a.example:5000/b, tag: v1.2.3}`,
		check: func(t *testing.T, objects []object) {
			require.Equal(t, "a.example:5000/b:v1.2.3", container(t, objects).Image)
		}},
	{name: "a digest beats the tag", base: "everything-on", values: `image: {tag: v1}`, check: func(t *testing.T, objects []object) {
		require.Regexp(t, `^ghcr\.io/coordsvc/coordsvc@sha256:1{64}$`, container(t, objects).Image)
		require.Equal(t, []corev1.LocalObjectReference{{Name: "registry"}}, pod(t, objects).ImagePullSecrets)
	}},
	{name: "who may connect to what by default", base: "plain", check: func(t *testing.T, objects []object) {
		spec := one[*networkingv1.NetworkPolicy](t, objects).Spec
		require.Equal(t, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, spec.PolicyTypes)
		require.Empty(t, spec.Egress)
		for _, rule := range spec.Ingress {
			require.Empty(t, rule.From, "from anywhere")
		}
	}},
	{name: "the way out is for DNS and brokers and what settings name", base: "oidc", check: func(t *testing.T, objects []object) {
		require.Equal(t, []string{"UDP/53", "TCP/53", "UDP/5353", "TCP/5353", "TCP/9092", "TCP/443", "TCP/8443"}, egress(t, objects))
	}},
	{name: "the way out of everything", base: "everything-on", check: func(t *testing.T, objects []object) {
		require.Equal(t, []string{"UDP/53", "TCP/53", "UDP/5353", "TCP/5353", "TCP/19092", "TCP/9092", "TCP/4318", "TCP/443", "TCP/9999"}, egress(t, objects))
		rules := one[*networkingv1.NetworkPolicy](t, objects).Spec.Egress
		require.Empty(t, rules[0].To)
		require.Equal(t, "10.0.0.0/8", rules[1].To[0].IPBlock.CIDR)
	}},
	{name: "brokers as text", base: "plain", values: "config: {kafka: {brokers: \"a:1,b:2,c:1\"}}\nnetworkPolicy: {egress: {enabled: true}}",
		check: func(t *testing.T, objects []object) {
			require.Equal(t, []string{"UDP/53", "TCP/53", "UDP/5353", "TCP/5353", "TCP/1", "TCP/2"}, egress(t, objects))
			require.Equal(t, []string{"a:1", "b:2", "c:1"}, settingsOf(t, objects, one[*appsv1.Deployment](t, objects)).Kafka.Brokers)
		}},
	{name: "spaces around brokers and zeros before ports", base: "plain", values: "config:\n  kafka:\n    brokers: |\n      a:09092 ,\n      b:0777\n  admin: {address: \":08099\"}\nnetworkPolicy: {egress: {enabled: true}}",
		check: func(t *testing.T, objects []object) {
			d := one[*appsv1.Deployment](t, objects)
			require.Equal(t, []string{"UDP/53", "TCP/53", "UDP/5353", "TCP/5353", "TCP/777", "TCP/9092"}, egress(t, objects))
			require.Equal(t, []string{"a:09092", "b:0777"}, settingsOf(t, objects, d).Kafka.Brokers)
			require.EqualValues(t, 8099, container(t, objects).Ports[2].ContainerPort)
			require.EqualValues(t, 8099, portNamed(t, named[*corev1.Service](t, objects, "release-coordsvc-headless"), "admin").Port)
		}},
	{name: "what plain ports speak", base: "plain", check: func(t *testing.T, objects []object) {
		for _, s := range all[*corev1.Service](objects) {
			require.Equal(t, "kubernetes.io/h2c", *portNamed(t, s, "grpc").AppProtocol)
			require.Equal(t, "http", *portNamed(t, s, "http").AppProtocol)
		}
	}},
	{name: "what TLS ports speak", base: "tls", check: func(t *testing.T, objects []object) {
		for _, s := range all[*corev1.Service](objects) {
			require.Equal(t, "https", *portNamed(t, s, "grpc").AppProtocol)
			require.Equal(t, "https", *portNamed(t, s, "http").AppProtocol)
		}
		require.Equal(t, "http", *portNamed(t, named[*corev1.Service](t, objects, "release-coordsvc-headless"), "admin").AppProtocol)
	}},
	{name: "a grace period of one's own", base: "plain", values: `terminationGracePeriodSeconds: 45`, check: func(t *testing.T, objects []object) {
		require.EqualValues(t, 45, *pod(t, objects).TerminationGracePeriodSeconds)
	}},
	{name: "memory for a call and no more", base: "mtls", values: "config: {limits: {max-calls-memory: 50MiB}, auth: {allowed-subjects: [orders.example, 'spiffe://prod.example/*', 'team-*']}}", check: func(t *testing.T, objects []object) {
		loaded := settingsOf(t, objects, one[*appsv1.Deployment](t, objects))
		require.Equal(t, []string{"orders.example", "spiffe://prod.example/*", "team-*"}, loaded.Auth.AllowedSubjects)
	}},
	{name: "a longer drain", base: "plain", values: `config: {shutdown: {drain-delay: 20s, drain-timeout: 1m}}`, check: func(t *testing.T, objects []object) {
		require.EqualValues(t, 5+20+60+5, *pod(t, objects).TerminationGracePeriodSeconds)
		require.EqualValues(t, 20+35, one[*appsv1.Deployment](t, objects).Spec.MinReadySeconds)
	}},
	{name: "a rollout may take longer than Pods must be ready", base: "plain", values: `config: {shutdown: {drain-delay: 10m}}`, check: func(t *testing.T, objects []object) {
		spec := one[*appsv1.Deployment](t, objects).Spec // the API refuses it otherwise, and its default is 600
		require.EqualValues(t, 600+35, spec.MinReadySeconds)
		require.EqualValues(t, 600+35+600, *spec.ProgressDeadlineSeconds)
	}},
	{name: "a share of what the limit requests", base: "plain", values: "autoscaling: {enabled: true}\nresources: {requests: null, limits: {cpu: 1, memory: 1Gi}}", check: func(t *testing.T, objects []object) {
		require.Len(t, one[*autoscalingv2.HorizontalPodAutoscaler](t, objects).Spec.Metrics, 1)
	}},
	{name: "quantities in other units", base: "plain", values: `resources: {limits: {cpu: 0.5, memory: 1.5Gi}, requests: {cpu: 500m, memory: 1536Mi}}`, check: func(t *testing.T, objects []object) {
		resources := container(t, objects).Resources
		require.Zero(t, resources.Limits.Cpu().Cmp(*resources.Requests.Cpu()))
		require.Zero(t, resources.Limits.Memory().Cmp(*resources.Requests.Memory()))
	}},
	{name: "scrapes once a day", base: "plain", values: `metrics: {podMonitor: {enabled: true, interval: 1d, scrapeTimeout: 10s}}`, check: func(t *testing.T, objects []object) {
		require.EqualValues(t, "1d", one[*monitoringv1.PodMonitor](t, objects).Spec.PodMetricsEndpoints[0].Interval)
	}},
	{name: "an issuer on this machine", base: "oidc", values: "config: {auth: {oidc: {issuer: \"http://[::1]:08080\"}}}\nnetworkPolicy: {egress: {enabled: true}}\nsecrets: {oidcCA: {name: \"\"}}", check: func(t *testing.T, objects []object) {
		require.Contains(t, egress(t, objects), "TCP/8080")
	}},
	{name: "the autoscaler's metrics", base: "hpa", check: func(t *testing.T, objects []object) {
		spec := one[*autoscalingv2.HorizontalPodAutoscaler](t, objects).Spec
		require.EqualValues(t, 3, *spec.MinReplicas)
		require.EqualValues(t, 12, spec.MaxReplicas)
		require.Len(t, spec.Metrics, 2)
		require.EqualValues(t, 70, *spec.Metrics[0].Resource.Target.AverageUtilization)
		require.Equal(t, corev1.ResourceMemory, spec.Metrics[1].Resource.Name)
		require.EqualValues(t, 600, *spec.Behavior.ScaleDown.StabilizationWindowSeconds)
	}},
	{name: "no processor target", base: "hpa", values: `autoscaling: {targetCPUUtilizationPercentage: null}`, check: func(t *testing.T, objects []object) {
		metrics := one[*autoscalingv2.HorizontalPodAutoscaler](t, objects).Spec.Metrics
		require.Len(t, metrics, 1)
		require.Equal(t, corev1.ResourceMemory, metrics[0].Resource.Name)
	}},
	{name: "a budget lets Pods go that are not ready", base: "plain", check: func(t *testing.T, objects []object) {
		spec := one[*policyv1.PodDisruptionBudget](t, objects).Spec
		require.Equal(t, "1", spec.MaxUnavailable.String())
		require.Equal(t, policyv1.AlwaysAllow, *spec.UnhealthyPodEvictionPolicy)
	}},
	{name: "a monitor of Pods", base: "plain", values: "metrics: {podMonitor: {enabled: true, interval: 15s, labels: {release: a}}}\nservice: {headless: {enabled: false}}",
		check: func(t *testing.T, objects []object) {
			monitor := one[*monitoringv1.PodMonitor](t, objects)
			require.Equal(t, "a", monitor.Labels["release"])
			require.Equal(t, "admin", *monitor.Spec.PodMetricsEndpoints[0].Port)
			require.EqualValues(t, "15s", monitor.Spec.PodMetricsEndpoints[0].Interval)
			require.Len(t, all[*corev1.Service](objects), 1)
			require.Len(t, one[*corev1.Pod](t, objects).Spec.Containers, 1, "helm test has no name to ask")
		}},
	{name: "alerts but for those left out", base: "everything-on", check: func(t *testing.T, objects []object) {
		groups := one[*monitoringv1.PrometheusRule](t, objects).Spec.Groups
		require.Len(t, groups, 1)
		var alerts []string
		for _, r := range groups[0].Rules {
			alerts = append(alerts, r.Alert)
			require.NotEmpty(t, r.Annotations["summary"])
		}
		require.Contains(t, alerts, "CoordsvcDown")
		require.NotContains(t, alerts, "CoordsvcAbsent")
		require.Contains(t, groups[0].Rules[0].Annotations["summary"], "{{ $labels.job }}", "for Prometheus, not for Helm")
	}},
	{name: "the dashboard is the one of deploy/grafana", base: "everything-on", check: func(t *testing.T, objects []object) {
		grafana, err := os.ReadFile("../../grafana/coordsvc.json")
		require.NoError(t, err)
		dashboard := named[*corev1.ConfigMap](t, objects, "kafka-coordinators-dashboard")
		require.Equal(t, "1", dashboard.Labels["grafana_dashboard"])
		require.JSONEq(t, string(grafana), dashboard.Data["coordsvc.json"])
	}},
	{name: "hosts and TLS of the Ingresses", base: "everything-on", check: func(t *testing.T, objects []object) {
		rest := named[*networkingv1.Ingress](t, objects, "kafka-coordinators-http").Spec
		require.Equal(t, "nginx", *rest.IngressClassName)
		require.Equal(t, []string{"coordsvc.example", "coordinators.example"}, []string{rest.Rules[0].Host, rest.Rules[1].Host})
		require.Equal(t, "coordsvc-ingress", rest.TLS[0].SecretName)
		require.Equal(t, "GRPCS", named[*networkingv1.Ingress](t, objects, "kafka-coordinators-grpc").Annotations["nginx.ingress.kubernetes.io/backend-protocol"])
	}},
	{name: "Gateways and names of the routes", base: "gateway", check: func(t *testing.T, objects []object) {
		route := one[*gatewayv1.GRPCRoute](t, objects).Spec
		require.EqualValues(t, "public", route.ParentRefs[0].Name)
		require.EqualValues(t, "gateways", *route.ParentRefs[0].Namespace)
		require.Equal(t, []gatewayv1.Hostname{"grpc.coordsvc.example"}, route.Hostnames)
		require.Equal(t, []gatewayv1.Hostname{"coordsvc.example"}, one[*gatewayv1.HTTPRoute](t, objects).Spec.Hostnames)
	}},
	{name: "Pods spread over zones and nodes", base: "plain", check: func(t *testing.T, objects []object) {
		spread := pod(t, objects).TopologySpreadConstraints
		require.Equal(t, []string{"topology.kubernetes.io/zone", "kubernetes.io/hostname"}, []string{spread[0].TopologyKey, spread[1].TopologyKey})
		for _, s := range spread {
			require.Equal(t, &metav1.LabelSelector{MatchLabels: one[*appsv1.Deployment](t, objects).Spec.Selector.MatchLabels}, s.LabelSelector)
			require.Equal(t, corev1.ScheduleAnyway, s.WhenUnsatisfiable)
		}
	}},
	{name: "a change of the chart alone makes no new Pods", base: "plain", check: func(t *testing.T, objects []object) {
		require.NotContains(t, one[*appsv1.Deployment](t, objects).Spec.Template.Labels, "helm.sh/chart")
	}},
	{name: "what is extra", base: "everything-on", check: func(t *testing.T, objects []object) {
		spec := pod(t, objects)
		require.Equal(t, "before", spec.InitContainers[0].Name)
		require.Equal(t, spec.InitContainers, one[*corev1.Pod](t, objects).Spec.InitContainers, "what they fetch helm test needs too")
		require.Equal(t, "beside", spec.Containers[1].Name)
		require.Contains(t, container(t, objects).Env, corev1.EnvVar{Name: "GOMEMLIMIT", Value: "200MiB"})
		require.Contains(t, container(t, objects).VolumeMounts, corev1.VolumeMount{Name: "scratch", MountPath: "/scratch"})
		named[*corev1.ConfigMap](t, objects, "kafka-coordinators-extra")
		named[*corev1.ConfigMap](t, objects, "release-text")
	}},
	{name: "OpenShift chooses the user", base: "plain", values: `podSecurityContext: {runAsUser: null, runAsGroup: null, fsGroup: null}`,
		check: func(t *testing.T, objects []object) {
			require.Equal(t, &corev1.PodSecurityContext{
				RunAsNonRoot: &[]bool{true}[0], SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			}, pod(t, objects).SecurityContext)
		}},
}

func pod(t *testing.T, objects []object) corev1.PodSpec {
	t.Helper()
	return one[*appsv1.Deployment](t, objects).Spec.Template.Spec
}

func container(t *testing.T, objects []object) corev1.Container {
	t.Helper()
	return pod(t, objects).Containers[0]
}

// egress are the ports that the network policy lets out.
func egress(t *testing.T, objects []object) []string {
	t.Helper()
	policy := one[*networkingv1.NetworkPolicy](t, objects)
	require.True(t, slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress))
	var ports []string
	for _, rule := range policy.Spec.Egress {
		for _, p := range rule.Ports {
			protocol := "TCP"
			if p.Protocol != nil {
				protocol = string(*p.Protocol)
			}
			ports = append(ports, protocol+"/"+strconv.Itoa(p.Port.IntValue()))
		}
	}
	return ports
}

// TestFeatures looks at what single values do.
func TestFeatures(t *testing.T) {
	bases := valuesFiles(t)
	for _, f := range features {
		for helmName, program := range helms {
			t.Run(f.name+"/"+helmName, func(t *testing.T) {
				t.Parallel()
				values := f.values
				if values == "" {
					values = "{}"
				}
				f.check(t, decode(t, render(t, program, "release", slices.Concat([]string{"--values", bases[f.base]}, file(t, values))...)))
			})
		}
	}
}
