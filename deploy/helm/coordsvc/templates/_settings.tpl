{{/* What the chart reads out of the service's settings, and what it adds to them. */}}

{{/* A setting as it is given, as JSON with the key "value": (list . "kafka.brokers"). Templates call each other with text only. */}}
{{- define "coordsvc.given" -}}
{{- $at := (index . 0).Values.config -}}
{{- range splitList "." (index . 1) -}}
{{- $at = ternary (index (ternary $at dict (kindIs "map" $at)) .) nil (kindIs "map" $at) -}}
{{- end -}}
{{- toJson (dict "value" $at) -}}
{{- end }}

{{/* A setting, or its default: (list . "shutdown.drain-delay" "5s"). A test holds the defaults against the service's own. */}}
{{- define "coordsvc.setting" -}}
{{- $value := (include "coordsvc.given" . | fromJson).value -}}
{{- if kindIs "invalid" $value -}}
{{- index . 2 -}}
{{- else if kindIs "slice" $value -}}
{{- join "," $value -}}
{{- else -}}
{{- $value -}}
{{- end -}}
{{- end }}

{{/* The entries of a list as JSON, as the service reads them: (list . "kafka.brokers"). A text is split at commas. */}}
{{- define "coordsvc.entries" -}}
{{- $value := (include "coordsvc.given" . | fromJson).value -}}
{{- $entries := list -}}
{{- range ternary (splitList "," (toString $value)) ($value | default list) (kindIs "string" $value) -}}
{{- $entries = append $entries (trim .) -}}
{{- end -}}
{{- toJson $entries -}}
{{- end }}

{{/* The number at the end of an address: that of "a:09092" is 9092. */}}
{{- define "coordsvc.portOf" }}{{ regexFind "[0-9]+$" . | atoi }}{{ end }}

{{/* The port of a listener: (list . "grpc.address" ":9090") */}}
{{- define "coordsvc.port" }}{{ include "coordsvc.setting" . | include "coordsvc.portOf" }}{{ end }}

{{- define "coordsvc.grpcPort" }}{{ include "coordsvc.port" (list . "grpc.address" ":9090") }}{{ end }}
{{- define "coordsvc.httpPort" }}{{ include "coordsvc.port" (list . "http.address" ":8080") }}{{ end }}
{{- define "coordsvc.adminPort" }}{{ include "coordsvc.port" (list . "admin.address" ":8081") }}{{ end }}

{{/* "true" where the gRPC and the REST port speak TLS. */}}
{{- define "coordsvc.tls" }}{{ include "coordsvc.setting" (list . "tls.enabled" "false") }}{{ end }}

{{/* The seconds of a duration of Go or of Prometheus, with their fraction: 1m30.5s is 90.5. */}}
{{- define "coordsvc.exactSeconds" -}}
{{- $units := dict "y" 31536000 "w" 604800 "d" 86400 "h" 3600 "m" 60 "s" 1 "ms" 0.001 "us" 0.000001 "µs" 0.000001 "ns" 0.000000001 -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9]+(\\.[0-9]*)?(ns|us|µs|ms|s|m|h|d|w|y)" . -1 -}}
{{- $sum = addf $sum (mulf (regexFind "^[0-9.]+" . | float64) (index $units (regexFind "[^0-9.]+$" .))) -}}
{{- end -}}
{{- /* Decimal fractions may come out off by some 1e-15: that is not a further second. */ -}}
{{- round $sum 9 -}}
{{- end }}

{{/* The bytes of a size: 8MiB is 8388608. */}}
{{- define "coordsvc.bytes" -}}
{{- $units := dict "B" 1 "KiB" 1024 "MiB" 1048576 "GiB" 1073741824 -}}
{{- mulf (regexFind "^[0-9]+" . | float64) (index $units (regexFind "[A-Za-z]+$" .)) -}}
{{- end }}

{{/* The seconds of a duration to whole ones, as Kubernetes wants them. */}}
{{- define "coordsvc.seconds" -}}
{{- include "coordsvc.exactSeconds" . | float64 | ceil | int64 -}}
{{- end }}

{{- define "coordsvc.drainDelaySeconds" }}{{ include "coordsvc.setting" (list . "shutdown.drain-delay" "5s") | include "coordsvc.seconds" }}{{ end }}
{{- define "coordsvc.drainTimeoutSeconds" }}{{ include "coordsvc.setting" (list . "shutdown.drain-timeout" "35s") | include "coordsvc.seconds" }}{{ end }}

{{/* How long a Pod takes to stop: the sleep before the signal, the delay, the timeout. */}}
{{- define "coordsvc.stopSeconds" -}}
{{- add .Values.preStopSleepSeconds (include "coordsvc.drainDelaySeconds" .) (include "coordsvc.drainTimeoutSeconds" .) -}}
{{- end }}

{{/* Five seconds on top are for what follows the drain: closing connections to brokers, the last spans (three seconds). */}}
{{- define "coordsvc.gracePeriodSeconds" -}}
{{- if kindIs "invalid" .Values.terminationGracePeriodSeconds -}}
{{- add 5 (include "coordsvc.stopSeconds" .) -}}
{{- else -}}
{{- .Values.terminationGracePeriodSeconds -}}
{{- end -}}
{{- end }}

{{/*
A gRPC client that balances by itself leaves a Pod when that begins to drain, and resolves the headless Service anew when
the drain delay is over and the connection ends. gRPC resolves at most every 30 seconds, and DNS answers may be five
seconds old. The next Pod must not begin to drain before, or a client of two Pods knows none that serves.
*/}}
{{- define "coordsvc.minReadySeconds" -}}
{{- if kindIs "invalid" .Values.minReadySeconds -}}
{{- add 35 (include "coordsvc.drainDelaySeconds" .) -}}
{{- else -}}
{{- .Values.minReadySeconds -}}
{{- end -}}
{{- end }}

{{/* Which settings take the files of which Secret, and the value that names the Secret's key. */}}
{{- define "coordsvc.secretFiles" -}}
serverTLS: {tls.cert-file: certKey, tls.key-file: keyKey}
clientCA: {tls.client-ca-file: key}
tokens: {auth.token-file: key}
oidcCA: {auth.oidc.ca-file: key}
kafkaCA: {kafka.tls.ca-file: key}
kafkaClientTLS: {kafka.tls.cert-file: certKey, kafka.tls.key-file: keyKey}
kafkaPassword: {kafka.sasl.password-file: key}
kafkaToken: {kafka.sasl.token-file: key}
kafkaOAuthClientSecret: {kafka.sasl.oauth.client-secret-file: key}
{{- end }}

{{/* The settings file: what `config` says, and the paths of the files that the chart mounts. */}}
{{- define "coordsvc.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $files := dict -}}
{{- range $name, $settings := include "coordsvc.secretFiles" . | fromYaml -}}
{{- $secret := index $.Values.secrets $name -}}
{{- range $path, $keyField := $settings -}}
{{- if $secret.name -}}
{{- $_ := set $files $path (printf "/etc/coordsvc/secrets/%s/%s" (kebabcase $name) (index $secret $keyField)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if .Values.policy -}}
{{- $_ := set $files "auth.policy-file" "/etc/coordsvc/policy/policy.yaml" -}}
{{- end -}}
{{- range $path, $value := $files -}}
{{- range reverse (splitList "." $path) -}}
{{- $value = dict . $value -}}
{{- end -}}
{{- $config = mergeOverwrite $config $value -}}
{{- end -}}
{{- toYaml $config -}}
{{- end }}

{{/* The volumes of the settings file, the policy and the Secrets; and below where they are mounted. */}}
{{- define "coordsvc.volumes" -}}
- name: config
  configMap:
    name: {{ include "coordsvc.fullname" . | quote }}
{{- if .Values.policy }}
- name: policy
  configMap:
    name: {{ printf "%s-policy" (include "coordsvc.fullname" .) | quote }}
{{- end }}
{{- range $name, $settings := include "coordsvc.secretFiles" . | fromYaml }}
{{- $secret := index $.Values.secrets $name }}
{{- if $secret.name }}
- name: {{ kebabcase $name }}
  secret:
    secretName: {{ $secret.name | quote }}
    # Owner and the Pod's group (podSecurityContext.fsGroup) may read.
    defaultMode: 0440
    items:
      {{- range $keyField := values $settings | sortAlpha }}
      - {key: {{ index $secret $keyField | quote }}, path: {{ index $secret $keyField | quote }}}
      {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "coordsvc.volumeMounts" -}}
- {name: config, mountPath: /etc/coordsvc/config, readOnly: true}
{{- if .Values.policy }}
- {name: policy, mountPath: /etc/coordsvc/policy, readOnly: true}
{{- end }}
{{- range $name := include "coordsvc.secretFiles" . | fromYaml | keys | sortAlpha }}
{{- if (index $.Values.secrets $name).name }}
- {name: {{ kebabcase $name }}, mountPath: /etc/coordsvc/secrets/{{ kebabcase $name }}, readOnly: true}
{{- end }}
{{- end }}
{{- end }}

{{/* The ports of kafka.brokers, separated by spaces. */}}
{{- define "coordsvc.brokerPorts" -}}
{{- $ports := list -}}
{{- range include "coordsvc.entries" (list . "kafka.brokers") | fromJsonArray -}}
{{- $ports = append $ports (include "coordsvc.portOf" .) -}}
{{- end -}}
{{- $ports | uniq | sortAlpha | join " " -}}
{{- end }}

{{/* The ports of the URLs that the service calls, separated by spaces. */}}
{{- define "coordsvc.urlPorts" -}}
{{- $ports := list -}}
{{- range list "auth.oidc.issuer" "kafka.sasl.oauth.token-endpoint-url" "tracing.endpoint" -}}
{{- $url := include "coordsvc.setting" (list $ . "") -}}
{{- if $url -}}
{{- $host := regexReplaceAll "^https?://([^/?#]*).*$" $url "${1}" -}}
{{- $ports = append $ports (ternary (include "coordsvc.portOf" $host) (ternary "443" "80" (hasPrefix "https:" $url)) (regexMatch ":[0-9]+$" $host)) -}}
{{- end -}}
{{- end -}}
{{- $ports | uniq | sortAlpha | join " " -}}
{{- end }}
