package test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wrong are values that must be refused before anything reaches a cluster. They come on
// top of the values file called base (plain where it is empty). The message must
// name the key and hold the reason.
var wrong = []struct {
	name, base, values string
	key, reason        string
}{
	// What the schema refuses.
	{name: "unknown key", values: `replicas: 3`,
		key: "replicas", reason: "additional properties"},
	{name: "misspelt key in a group", values: `service: {grcpPort: 1}`,
		key: "/service", reason: "'grcpPort' not allowed"},
	{name: "unknown setting", values: `config: {kafka: {broker: [kafka-0:9092]}}`,
		key: "/config/kafka", reason: "'broker' not allowed"},
	{name: "unknown section of settings", values: `config: {kafak: {}}`,
		key: "/config", reason: "'kafak' not allowed"},
	{name: "text for a number", values: `replicaCount: "3"`,
		key: "/replicaCount", reason: "want integer"},
	{name: "negative replicas", values: `replicaCount: -1`,
		key: "/replicaCount", reason: "want 0"},
	{name: "half a replica", values: `replicaCount: 1.5`,
		key: "/replicaCount", reason: "want integer"},
	{name: "text for a boolean", values: `podDisruptionBudget: {enabled: "false"}`,
		key: "/podDisruptionBudget/enabled", reason: "want boolean"},
	{name: "unknown level", values: `config: {log: {level: trace}}`,
		key: "/config/log/level", reason: "value must be one of 'debug', 'info', 'warn', 'error'"},
	{name: "unknown mechanism", values: `config: {kafka: {sasl: {mechanism: GSSAPI}}}`,
		key: "/config/kafka/sasl/mechanism", reason: "value must be one of 'PLAIN'"},
	{name: "duration without a unit", values: `config: {shutdown: {drain-delay: "5"}}`,
		key: "/config/shutdown/drain-delay", reason: "does not match pattern"},
	{name: "duration as a number", values: `config: {shutdown: {drain-delay: 5}}`,
		key: "/config/shutdown/drain-delay", reason: "got number, want null or string"},
	{name: "size without a unit", values: `config: {limits: {max-message-bytes: "8000000"}}`,
		key: "/config/limits/max-message-bytes", reason: "does not match pattern"},
	{name: "setting out of range", values: `config: {kafka: {max-api-versions: 5}}`,
		key: "/config/kafka/max-api-versions", reason: "want 4"},
	{name: "port that is none", values: `service: {httpPort: 70000}`,
		key: "/service/httpPort", reason: "want 65,535"},
	{name: "unknown Service type", values: `service: {type: ExternalName}`,
		key: "/service/type", reason: "value must be one of 'ClusterIP'"},
	{name: "unknown pull policy", values: `image: {pullPolicy: Sometimes}`,
		key: "/image/pullPolicy", reason: "value must be one of 'Always'"},
	{name: "digest that is none", values: `image: {digest: latest}`,
		key: "/image/digest", reason: "does not match pattern"},
	{name: "name too long", values: `fullnameOverride: a23456789-123456789-123456789-123456789-123456789-1234`,
		key: "/fullnameOverride", reason: "want 53"},
	{name: "name that no Service can have", values: `fullnameOverride: Coordsvc`,
		key: "/fullnameOverride", reason: "does not match pattern"},
	{name: "number as an annotation", values: `podAnnotations: {a: 1}`,
		key: "/podAnnotations/a", reason: "want string"},
	{name: "variable without a name", values: `extraEnv: [{value: x}]`,
		key: "/extraEnv/0", reason: "missing property 'name'"},
	{name: "variable as a number", values: `extraEnv: [{name: A, value: 1}]`,
		key: "/extraEnv/0/value", reason: "want string"},
	{name: "policy with an unknown key type", values: `policy: {rules: [{callers: ["token:a"], prefixes: [""], key-types: [TOPIC]}]}`,
		key: "/policy/rules/0/key-types/0", reason: "value must be one of 'GROUP'"},
	{name: "policy without callers", values: `policy: {rules: [{prefixes: [""]}]}`,
		key: "/policy/rules/0", reason: "missing property 'callers'"},
	{name: "scrape interval without a unit", values: `metrics: {serviceMonitor: {enabled: true, interval: "30"}}`,
		key: "/metrics/serviceMonitor/interval", reason: "does not match pattern"},
	{name: "probe period zero", values: `probes: {readiness: {periodSeconds: 0}}`,
		key: "/probes/readiness/periodSeconds", reason: "want 1"},
	{name: "more than all Pods missing", values: `rollingUpdate: {maxUnavailable: 150%}`,
		key: "/rollingUpdate/maxUnavailable", reason: "does not match pattern"},
	{name: "budget of more than all", values: "replicaCount: 1\npodDisruptionBudget: {maxUnavailable: 150%}",
		key: "/podDisruptionBudget/maxUnavailable", reason: "does not match pattern"},
	{name: "budget of none with two digits", values: `podDisruptionBudget: {maxUnavailable: 00%}`,
		key: "/podDisruptionBudget/maxUnavailable", reason: "does not match pattern"},
	{name: "quantity that is none", values: `resources: {requests: {cpu: 1..5}}`,
		key: "/resources/requests/cpu", reason: "does not match pattern"},
	{name: "negative quantity", values: `resources: {requests: {cpu: -1}}`,
		key: "/resources/requests/cpu", reason: "want 0"},
	{name: "label with a space", values: `podLabels: {a: b c}`,
		key: "/podLabels/a", reason: "does not match pattern"},
	{name: "name of a label with a space", values: `commonLabels: {a b: c}`,
		key: "/commonLabels", reason: "'a b' not allowed"},
	{name: "node label with a space", values: `nodeSelector: {a: b c}`,
		key: "/nodeSelector/a", reason: "does not match pattern"},
	{name: "name of a Secret with two dots", values: `secrets: {kafkaPassword: {name: a..b}}`,
		key: "/secrets/kafkaPassword/name", reason: "does not match pattern"},
	{name: "key of a Secret that leaves its folder", values: `secrets: {kafkaPassword: {key: ..}}`,
		key: "/secrets/kafkaPassword/key", reason: "does not match pattern"},
	{name: "account with capitals", values: `serviceAccount: {name: My_Account}`,
		key: "/serviceAccount/name", reason: "does not match pattern"},
	{name: "host with two dots", values: `ingress: {http: {enabled: true, hosts: [a..b]}}`,
		key: "/ingress/http/hosts/0", reason: "does not match pattern"},
	{name: "source range without a length", values: `service: {type: LoadBalancer, loadBalancerSourceRanges: [10.0.0.1]}`,
		key: "/service/loadBalancerSourceRanges/0", reason: "does not match pattern"},
	{name: "misspelt selector", values: `networkPolicy: {grpcFrom: [{podSelector: {matchLabel: {a: b}}}]}`,
		key: "/networkPolicy/grpcFrom/0/podSelector", reason: "'matchLabel' not allowed"},
	{name: "scrape interval the wrong way round", values: `metrics: {podMonitor: {enabled: true, interval: 30s1m}}`,
		key: "/metrics/podMonitor/interval", reason: "does not match pattern"},
	{name: "text for security", values: `podSecurityContext: {runAsNonRoot: "true"}`,
		key: "/podSecurityContext/runAsNonRoot", reason: "want null or boolean"},
	{name: "misspelt security", values: `securityContext: {runAsNonroot: true}`,
		key: "/securityContext", reason: "'runAsNonroot' not allowed"},
	{name: "unknown operator", values: `tolerations: [{key: a, operator: Is}]`,
		key: "/tolerations/0/operator", reason: "value must be one of 'Exists'"},
	{name: "spread without a skew", values: `topologySpreadConstraints: [{topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]`,
		key: "/topologySpreadConstraints/0", reason: "missing property 'maxSkew'"},
	{name: "object of nothing", values: `extraObjects: [{}]`,
		key: "/extraObjects/0", reason: "want 1"},

	// What does not fit together.
	{name: "no brokers", values: `config: {kafka: {brokers: []}}`,
		key: "config.kafka.brokers", reason: "is empty"},
	{name: "brokers deleted", values: `config: {kafka: null}`,
		key: "config.kafka.brokers", reason: "is empty"},
	{name: "broker without port", values: `config: {kafka: {brokers: [kafka-0]}}`,
		key: "config.kafka.brokers", reason: `"kafka-0" is not host:port`},
	{name: "broker as a URL", values: `config: {kafka: {brokers: "kafka://kafka-0:9092"}}`,
		key: "config.kafka.brokers", reason: "is not host:port"},
	{name: "broker port that is none", values: `config: {kafka: {brokers: [kafka-0:99999]}}`,
		key: "config.kafka.brokers", reason: "has no port from 1 to 65535"},
	{name: "brokers in one entry of a list", values: `config: {kafka: {brokers: ["a:9092,b:9092"]}}`,
		key: "config.kafka.brokers", reason: `"a:9092,b:9092" is not host:port`},
	{name: "list of nothing", base: "mtls", values: `config: {auth: {allowed-subjects: []}}`,
		key: "config.auth.allowed-subjects", reason: "is an empty list"},
	{name: "host with a space", values: `config: {http: {address: "a b:8080"}}`,
		key: "config.http.address", reason: "is not host:port"},
	{name: "ports clash beside a zero", values: `config: {grpc: {address: ":08080"}}`,
		key: "config.http.address", reason: "port 8080 is that of config.grpc.address as well"},
	{name: "ports clash", values: `config: {grpc: {address: ":8080"}}`,
		key: "config.http.address", reason: "port 8080 is that of config.grpc.address as well"},
	{name: "admin port clashes", values: `config: {admin: {address: "0.0.0.0:9090"}}`,
		key: "config.grpc.address", reason: "port 9090 is that of config.admin.address as well"},
	{name: "a port chosen at start", values: `config: {grpc: {address: ":0"}}`,
		key: "config.grpc.address", reason: "port 0"},
	{name: "address without port", values: `config: {http: {address: "0.0.0.0"}}`,
		key: "config.http.address", reason: "is not host:port"},
	{name: "address of the Pod alone", values: `config: {admin: {address: "127.0.0.1:8081"}}`,
		key: "config.admin.address", reason: "reached from inside the Pod only"},
	{name: "Service ports clash", values: `service: {grpcPort: 8080}`,
		key: "service.httpPort", reason: "8080 is service.grpcPort as well"},
	{name: "inline password", values: `config: {kafka: {sasl: {mechanism: PLAIN, username: a, password: geheim}}}`,
		key: "config.kafka.sasl.password", reason: "put it into a Secret"},
	{name: "Secret and inline password", base: "sasl", values: `config: {kafka: {sasl: {password: geheim}}}`,
		key: "config.kafka.sasl.password", reason: "secrets.kafkaPassword.name (as is done already)"},
	{name: "inline client secret", base: "oidc", values: `config: {kafka: {sasl: {oauth: {client-secret: geheim}}}}`,
		key: "config.kafka.sasl.oauth.client-secret", reason: "put it into a Secret"},
	{name: "Secret and a file of one's own", base: "sasl", values: `config: {kafka: {sasl: {password-file: /run/password}}}`,
		key: "config.kafka.sasl.password-file", reason: "secrets.kafkaPassword.name as well"},
	{name: "TLS without a certificate", values: `config: {tls: {enabled: true}}`,
		key: "config.tls.enabled", reason: "needs the certificate; name a Secret in secrets.serverTLS.name"},
	{name: "certificate without TLS", values: `secrets: {serverTLS: {name: a}}`,
		key: "secrets.serverTLS.name", reason: "config.tls.enabled is false"},
	{name: "certificate and key are one entry", base: "tls", values: `secrets: {serverTLS: {keyKey: tls.crt}}`,
		key: "secrets.serverTLS.keyKey", reason: "two entries of the Secret"},
	{name: "client certificates without TLS", values: "config: {tls: {client-auth: require}}\nsecrets: {clientCA: {name: a}}",
		key: "config.tls.client-auth", reason: "require needs TLS"},
	{name: "client certificates without authorities", base: "tls", values: `config: {tls: {client-auth: require}}`,
		key: "config.tls.client-auth", reason: "needs the authorities"},
	{name: "authorities that nobody is checked with", base: "tls", values: `secrets: {clientCA: {name: a}}`,
		key: "secrets.clientCA.name", reason: "set config.tls.client-auth to require"},
	{name: "subjects that nobody is compared with", base: "tls", values: `config: {auth: {allowed-subjects: [a]}}`,
		key: "config.auth.allowed-subjects", reason: "set config.tls.client-auth to require"},
	{name: "issuer without audience", values: `config: {auth: {oidc: {issuer: "https://a.example"}}}`,
		key: "config.auth.oidc.issuer", reason: "needs config.auth.oidc.audience"},
	{name: "audience without issuer", values: `config: {auth: {oidc: {audience: [a]}}}`,
		key: "config.auth.oidc.audience", reason: "without config.auth.oidc.issuer"},
	{name: "policy for nobody", values: `policy: {rules: [{callers: ["token:a"], prefixes: [""]}]}`,
		key: "policy", reason: "nothing tells who is calling"},
	{name: "policy without rules", base: "sasl", values: `policy: {rules: []}`,
		key: "policy", reason: "has no rules"},
	{name: "policy twice", base: "mtls", values: `config: {auth: {policy-file: /a}}`,
		key: "config.auth.policy-file", reason: "policy as well"},
	{name: "Kafka authorities without TLS", values: `secrets: {kafkaCA: {name: a}}`,
		key: "secrets.kafkaCA.name", reason: "while config.kafka.tls.enabled is false"},
	{name: "Kafka server name without TLS", values: `config: {kafka: {tls: {server-name: a}}}`,
		key: "config.kafka.tls.server-name", reason: "while config.kafka.tls.enabled is false"},
	{name: "Kafka certificate without key", values: `config: {kafka: {tls: {enabled: true, cert-file: /a}}}`,
		key: "config.kafka.tls.cert-file", reason: "needs config.kafka.tls.key-file"},
	{name: "password without mechanism", values: `secrets: {kafkaPassword: {name: a}}`,
		key: "secrets.kafkaPassword.name", reason: "has no effect without config.kafka.sasl.mechanism"},
	{name: "mechanism without password", values: `config: {kafka: {sasl: {mechanism: PLAIN, username: a}}}`,
		key: "config.kafka.sasl.mechanism", reason: "PLAIN needs the password"},
	{name: "mechanism without user", base: "sasl", values: `config: {kafka: {sasl: {username: ""}}}`,
		key: "config.kafka.sasl.mechanism", reason: "SCRAM-SHA-512 needs config.kafka.sasl.username"},
	{name: "token for a password mechanism", base: "sasl", values: `secrets: {kafkaToken: {name: a}}`,
		key: "secrets.kafkaToken.name", reason: "is for the mechanism OAUTHBEARER"},
	{name: "scope for a password mechanism", base: "sasl", values: `config: {kafka: {sasl: {oauth: {scope: a}}}}`,
		key: "config.kafka.sasl.oauth.scope", reason: "is for the mechanism OAUTHBEARER"},
	{name: "OAUTHBEARER without a token", values: `config: {kafka: {sasl: {mechanism: OAUTHBEARER}}}`,
		key: "config.kafka.sasl.mechanism", reason: "OAUTHBEARER needs a token"},
	{name: "OAUTHBEARER with two", base: "oidc", values: `secrets: {kafkaToken: {name: a}}`,
		key: "secrets.kafkaToken.name", reason: "token-endpoint-url is given as well"},
	{name: "token endpoint without client", base: "oidc", values: `config: {kafka: {sasl: {oauth: {client-id: ""}}}}`,
		key: "config.kafka.sasl.oauth.token-endpoint-url", reason: "needs config.kafka.sasl.oauth.client-id"},
	{name: "duration out of range", values: `config: {shutdown: {drain-delay: 11m}}`,
		key: "config.shutdown.drain-delay", reason: "11m is not from 0s to 10m"},
	{name: "duration below its range", values: `config: {pool: {max-idle-time: 999ms}}`,
		key: "config.pool.max-idle-time", reason: "999ms is not from 1s to 24h"},
	{name: "size out of range", values: `config: {limits: {max-message-bytes: 2GiB}}`,
		key: "config.limits.max-message-bytes", reason: "2GiB is not from 64KiB to 1GiB"},
	{name: "collector that is no URL", values: `config: {tracing: {endpoint: "otel-collector:4318"}}`,
		key: "config.tracing.endpoint", reason: "is not a URL"},
	{name: "issuer with a password", values: `config: {auth: {oidc: {issuer: "https://a:geheim2@b.example", audience: [a]}}}`,
		key: "config.auth.oidc.issuer", reason: "is not a URL without user and password"},
	{name: "issuer in the clear", base: "oidc", values: `config: {auth: {oidc: {issuer: "http://login.example"}}}`,
		key: "config.auth.oidc.issuer", reason: "must begin with https://"},
	{name: "issuer with a query", base: "oidc", values: `config: {auth: {oidc: {issuer: "https://login.example?a=b"}}}`,
		key: "config.auth.oidc.issuer", reason: "has a query or a fragment"},
	{name: "collector with a query", values: `config: {tracing: {endpoint: "http://collector.example:4318/a?b"}}`,
		key: "config.tracing.endpoint", reason: "has a query or a fragment"},
	{name: "collector's port that is none", values: `config: {tracing: {endpoint: "http://collector.example:70000"}}`,
		key: "config.tracing.endpoint", reason: "has a port above 65535"},
	{name: "request above the limit", values: `resources: {requests: {memory: 1Gi}}`,
		key: "resources.requests.memory", reason: "1Gi is more than resources.limits.memory, which is 256Mi"},
	{name: "limit below the request", values: `resources: {limits: {cpu: 0.05}}`,
		key: "resources.requests.cpu", reason: "100m is more than resources.limits.cpu, which is 0.05"},
	{name: "half a byte of memory", values: `resources: {limits: {memory: 512m}}`,
		key: "resources.limits.memory", reason: "512m is less than a megabyte"},
	{name: "tag in the image's name", values: `image: {repository: "registry.example:5000/coordsvc:v1"}`,
		key: "image.repository", reason: "ends with a tag; put that into image.tag"},
	{name: "image with capitals", values: `image: {repository: registry.example/Tools/coordsvc}`,
		key: "image.repository", reason: "is not the name of an image"},
	{name: "timeouts the wrong way round", values: `config: {lookup: {max-timeout: 2s}}`,
		key: "config.lookup.max-timeout", reason: "less than config.lookup.default-timeout, which is 5s"},
	{name: "a call that never fits", values: `config: {limits: {max-waiting-keys: 9999}}`,
		key: "config.limits.max-waiting-keys", reason: "less than config.lookup.max-keys, which is 10000"},
	{name: "drain longer than grace", values: `terminationGracePeriodSeconds: 44`,
		key: "terminationGracePeriodSeconds", reason: "44 is less than preStopSleepSeconds, config.shutdown.drain-delay and config.shutdown.drain-timeout together, which are 45"},
	{name: "longer drain than the grace given", values: "terminationGracePeriodSeconds: 60\nconfig: {shutdown: {drain-timeout: 1m}}",
		key: "terminationGracePeriodSeconds", reason: "which are 70"},
	{name: "budget that lets no node go", values: `podDisruptionBudget: {maxUnavailable: 0}`,
		key: "podDisruptionBudget.maxUnavailable", reason: "lets no node be drained"},
	{name: "budget of none in percent", values: `podDisruptionBudget: {maxUnavailable: 0%}`,
		key: "podDisruptionBudget.maxUnavailable", reason: "lets no node be drained"},
	{name: "budget of all", values: `podDisruptionBudget: {maxUnavailable: 2}`,
		key: "podDisruptionBudget.maxUnavailable", reason: "may take all Pods at once, as replicaCount is 2"},
	{name: "budget of all when rounded", values: `podDisruptionBudget: {maxUnavailable: 51%}`,
		key: "podDisruptionBudget.maxUnavailable", reason: "may take all Pods at once"},
	{name: "autoscaler below the budget", values: `autoscaling: {enabled: true, minReplicas: 1}`,
		key: "podDisruptionBudget.maxUnavailable", reason: "may take all Pods at once, as autoscaling.minReplicas is 1"},
	{name: "most below least", values: `autoscaling: {enabled: true, minReplicas: 5, maxReplicas: 4}`,
		key: "autoscaling.maxReplicas", reason: "4 is less than autoscaling.minReplicas, which is 5"},
	{name: "autoscaler without a metric", values: `autoscaling: {enabled: true, targetCPUUtilizationPercentage: null}`,
		key: "autoscaling.targetCPUUtilizationPercentage", reason: "needs one to go by"},
	{name: "share of no request", values: "autoscaling: {enabled: true}\nresources: {requests: {cpu: null}}",
		key: "autoscaling.targetCPUUtilizationPercentage", reason: "resources.requests.cpu, which is not set"},
	{name: "no way to replace a Pod", values: `rollingUpdate: {maxSurge: 0}`,
		key: "rollingUpdate.maxUnavailable", reason: "no Pod could ever be replaced"},
	{name: "Ingress without host", values: `ingress: {http: {enabled: true}}`,
		key: "ingress.http.hosts", reason: "is empty"},
	{name: "address for a host", values: `ingress: {http: {enabled: true, hosts: [10.0.0.1]}}`,
		key: "ingress.http.hosts", reason: "10.0.0.1 is an IP address"},
	{name: "one host for both", values: `ingress: {http: {enabled: true, hosts: [a.example]}, grpc: {enabled: true, hosts: [a.example]}}`,
		key: "ingress.grpc.hosts", reason: "a.example is in ingress.http.hosts as well"},
	{name: "route without Gateway", values: `gateway: {httpRoute: {enabled: true}}`,
		key: "gateway.httpRoute.parentRefs", reason: "is empty"},
	{name: "routes that take each other's calls", values: `gateway: {httpRoute: {enabled: true, parentRefs: [{name: a}]}, grpcRoute: {enabled: true, parentRefs: [{name: a}]}}`,
		key: "gateway.grpcRoute.hostnames", reason: "give gRPC its own name"},
	{name: "source ranges of no balancer", values: `service: {loadBalancerSourceRanges: [10.0.0.0/8]}`,
		key: "service.loadBalancerSourceRanges", reason: "no effect while service.type is ClusterIP"},
	{name: "peers of no policy", values: `networkPolicy: {enabled: false, grpcFrom: [{podSelector: {}}]}`,
		key: "networkPolicy.grpcFrom", reason: "no effect while networkPolicy.enabled is false"},
	{name: "peer of two kinds", values: `networkPolicy: {adminFrom: [{podSelector: {}, ipBlock: {cidr: 10.0.0.0/8}}]}`,
		key: "networkPolicy.adminFrom", reason: "ipBlock and a selector"},
	{name: "egress of no policy", values: `networkPolicy: {enabled: false, egress: {enabled: true}}`,
		key: "networkPolicy.egress.enabled", reason: "no effect while networkPolicy.enabled is false"},
	{name: "brokers of no egress", values: `networkPolicy: {egress: {brokersTo: [{podSelector: {}}]}}`,
		key: "networkPolicy.egress", reason: "no effect while networkPolicy.egress.enabled is false"},
	{name: "two monitors", values: `metrics: {serviceMonitor: {enabled: true}, podMonitor: {enabled: true}}`,
		key: "metrics.podMonitor.enabled", reason: "scrape each Pod twice"},
	{name: "monitor of no Service", values: "metrics: {serviceMonitor: {enabled: true}}\nservice: {headless: {enabled: false}}",
		key: "metrics.serviceMonitor.enabled", reason: "set service.headless.enabled"},
	{name: "scrape longer than its interval", values: `metrics: {podMonitor: {enabled: true, interval: 1m, scrapeTimeout: 90s}}`,
		key: "metrics.podMonitor.scrapeTimeout", reason: "90s is longer than metrics.podMonitor.interval"},
	{name: "unknown alert", values: `metrics: {prometheusRule: {enabled: true, disabledAlerts: [CoordsvcGone]}}`,
		key: "metrics.prometheusRule.disabledAlerts", reason: `there is no alert "CoordsvcGone"`},
	{name: "setting as a variable", values: `extraEnv: [{name: COORDSVC_GRPC_ADDRESS, value: ":1"}]`,
		key: "extraEnv", reason: "COORDSVC_GRPC_ADDRESS is a setting"},
	{name: "the chart's own variable", values: `extraEnv: [{name: COORDSVC_CONFIG, value: /a}]`,
		key: "extraEnv", reason: "COORDSVC_CONFIG is a setting"},
	{name: "variable twice", values: `extraEnv: [{name: A, value: "1"}, {name: A, value: "2"}]`,
		key: "extraEnv", reason: "A is there twice"},
	{name: "variable with two values", values: `extraEnv: [{name: A, value: a, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]`,
		key: "extraEnv", reason: "A has value and valueFrom"},
	{name: "volume of two kinds", values: `extraVolumes: [{name: a, emptyDir: {}, hostPath: {path: /a}}]`,
		key: "extraVolumes", reason: "a is more than one kind of volume: emptyDir, hostPath"},
	{name: "two mounts at one path", values: "extraVolumes: [{name: a, emptyDir: {}}]\nextraVolumeMounts: [{name: a, mountPath: /a}, {name: a, mountPath: /a/}]",
		key: "extraVolumeMounts", reason: "/a/ is there twice"},
	{name: "volume name taken", values: `extraVolumes: [{name: config, emptyDir: {}}]`,
		key: "extraVolumes", reason: "config is taken"},
	{name: "mount without volume", values: `extraVolumeMounts: [{name: a, mountPath: /a}]`,
		key: "extraVolumeMounts", reason: "there is no volume a"},
	{name: "mount over the settings", values: "extraVolumes: [{name: a, emptyDir: {}}]\nextraVolumeMounts: [{name: a, mountPath: /etc/coordsvc/config}]",
		key: "extraVolumeMounts", reason: "choose another path"},
	{name: "container name taken", values: `extraContainers: [{name: coordsvc, image: a}]`,
		key: "extraContainers", reason: "coordsvc is taken"},
	{name: "label that Services look for", values: `podLabels: {app.kubernetes.io/name: a}`,
		key: "podLabels", reason: "app.kubernetes.io/name is the chart's own"},
	{name: "annotation of the chart", values: `podAnnotations: {checksum/config: a}`,
		key: "podAnnotations", reason: "checksum/config is the chart's own"},
}

// TestRefused: each wrong value is refused by both Helms, with its key and the reason.
func TestRefused(t *testing.T) {
	bases := valuesFiles(t)
	names := map[string]bool{}
	for _, c := range wrong {
		require.False(t, names[c.name], "%s is there twice", c.name)
		names[c.name] = true
		if c.base == "" {
			c.base = "plain"
		}
		for helmName, program := range helms {
			t.Run(c.name+"/"+helmName, func(t *testing.T) {
				t.Parallel()
				args := append([]string{"template", "release", chart, "--values", bases[c.base]}, file(t, c.values)...)
				out, errs, err := helm(program, args...)
				require.Error(t, err, "it renders")
				require.Empty(t, out)
				var line string
				for l := range strings.Lines(errs) {
					if strings.Contains(l, c.key) && strings.Contains(l, c.reason) {
						line = l
					}
				}
				require.NotEmpty(t, line, "no line says %q and %q:\n%s", c.key, c.reason, errs)
				require.NotContains(t, errs, "geheim", "a secret is printed")
				require.NotContains(t, errs, "error calling index", "a template broke before the message")
			})
		}
	}
}

// TestRefusedTogether: several mistakes are told at once.
func TestRefusedTogether(t *testing.T) {
	_, errs, err := helm(helms["Helm 4"], append([]string{"template", "release", chart}, file(t, `{replicaCount: 2, podDisruptionBudget: {maxUnavailable: 0}, rollingUpdate: {maxSurge: 0}}`)...)...)
	require.Error(t, err)
	for _, key := range []string{"config.kafka.brokers: ", "podDisruptionBudget.maxUnavailable: ", "rollingUpdate.maxUnavailable: "} {
		require.Contains(t, errs, "\n  - "+key)
	}
}

// TestRefusedKubernetes: what is too old to stop Pods without loss is refused.
func TestRefusedKubernetes(t *testing.T) {
	for _, program := range helms {
		_, errs, err := helm(program, "template", "release", chart, "--values", valuesFiles(t)["plain"], "--kube-version", "1.29.9")
		require.Error(t, err)
		require.Contains(t, errs, "incompatible with Kubernetes v1.29.9")
		_, errs, err = helm(program, append([]string{"template", "release", chart, "--values", valuesFiles(t)["plain"], "--kube-version", "1.33.1"}, file(t, `service: {trafficDistribution: PreferSameZone}`)...)...)
		require.Error(t, err)
		require.Contains(t, errs, "service.trafficDistribution: PreferSameZone needs Kubernetes 1.34")
		render(t, program, "release", "--values", valuesFiles(t)["plain"], "--kube-version", "v1.30.2-eks-1552ad0")
	}
}
