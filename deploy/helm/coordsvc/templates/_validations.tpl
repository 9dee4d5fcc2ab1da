{{/* Each of these prints one line a mistake: the value's path, a colon, the reason and what to do. */}}

{{/* What a host may be made of, as a class for regular expressions. */}}
{{- define "coordsvc.hostCharacter" }}[^][:/@\\,;"'()<>{}?#\s\pC]{{ end }}

{{- define "coordsvc.check.brokers" -}}
{{- $brokers := include "coordsvc.entries" (list . "kafka.brokers") | fromJsonArray }}
{{- if not (compact $brokers) }}
config.kafka.brokers: is empty; give the brokers to start from, as in --set 'config.kafka.brokers={kafka-0:9092,kafka-1:9092}'
{{- end }}
{{- range compact $brokers }}
{{- if not (regexMatch (printf "^(\\[[0-9a-fA-F:.]+(%%[^\\]]+)?\\]|%s+):[0-9]{1,5}$" (include "coordsvc.hostCharacter" $)) .) }}
config.kafka.brokers: {{ quote . }} is not host:port, such as kafka-0:9092 or [2001:db8::1]:9092
{{- else if or (gt (regexFind "[0-9]+$" . | atoi) 65535) (eq (regexFind "[0-9]+$" . | atoi) 0) }}
config.kafka.brokers: {{ quote . }} has no port from 1 to 65535
{{- end }}
{{- end }}
{{- end }}

{{- define "coordsvc.check.listeners" -}}
{{- $taken := dict }}
{{- range $path, $default := dict "grpc.address" ":9090" "http.address" ":8080" "admin.address" ":8081" }}
{{- $address := include "coordsvc.setting" (list $ $path $default) }}
{{- $port := include "coordsvc.port" (list $ $path $default) }}
{{- if not (regexMatch (printf "^(\\[[0-9a-fA-F:.]+(%%[^\\]]+)?\\]|%s*):[0-9]{1,5}$" (include "coordsvc.hostCharacter" $)) $address) }}
config.{{ $path }}: {{ quote $address }} is not host:port, such as {{ $default }}
{{- else if eq (atoi $port) 0 }}
config.{{ $path }}: port 0 is one that nobody knows before the start; give a port that the Service can name
{{- else if gt (atoi $port) 65535 }}
config.{{ $path }}: there is no port {{ $port }}; the last is 65535
{{- else if hasKey $taken $port }}
config.{{ $path }}: port {{ $port }} is that of config.{{ index $taken $port }} as well; give each its own
{{- else }}
{{- $_ := set $taken $port $path }}
{{- end }}
{{- if regexMatch "^(127\\.|localhost:|\\[::1\\])" $address }}
config.{{ $path }}: {{ quote $address }} is reached from inside the Pod only; leave the host out
{{- end }}
{{- end }}
{{- if eq (int .Values.service.grpcPort) (int .Values.service.httpPort) }}
service.httpPort: {{ .Values.service.httpPort }} is service.grpcPort as well; the Service needs a port for each
{{- end }}
{{- end }}

{{- define "coordsvc.check.inlineSecrets" -}}
{{- range $path, $secret := dict "kafka.sasl.password" "kafkaPassword" "kafka.sasl.oauth.client-secret" "kafkaOAuthClientSecret" }}
{{- if include "coordsvc.setting" (list $ $path "") }}
config.{{ $path }}: would stand in a ConfigMap and in the release's history for all to read; put it into a Secret, name that in secrets.{{ $secret }}.name{{ if (index $.Values.secrets $secret).name }} (as is done already){{ end }}, and leave this out
{{- end }}
{{- end }}
{{- end }}

{{- define "coordsvc.check.secretFiles" -}}
{{- range $name, $settings := include "coordsvc.secretFiles" . | fromYaml }}
{{- range $path, $keyField := $settings }}
{{- if and (index $.Values.secrets $name).name (include "coordsvc.setting" (list $ $path "")) }}
config.{{ $path }}: is given, and secrets.{{ $name }}.name as well, which sets it; give one of them
{{- end }}
{{- end }}
{{- if and (hasKey (index $.Values.secrets $name) "certKey") (index $.Values.secrets $name).name (eq (index $.Values.secrets $name).certKey (index $.Values.secrets $name).keyKey) }}
secrets.{{ $name }}.keyKey: is secrets.{{ $name }}.certKey as well; certificate and key are two entries of the Secret
{{- end }}
{{- end }}
{{- if and .Values.policy (include "coordsvc.setting" (list . "auth.policy-file" "")) }}
config.auth.policy-file: is given, and policy as well, which sets it; give one of them
{{- end }}
{{- end }}

{{/* "true" where a file of a setting is there, whoever gave it: (list . "tls.cert-file" "serverTLS") */}}
{{- define "coordsvc.hasFile" -}}
{{- $root := index . 0 -}}
{{- if or (include "coordsvc.setting" (list $root (index . 1) "")) (index $root.Values.secrets (index . 2)).name }}true{{ end -}}
{{- end }}

{{/* Where a setting is given, in words: (list . "tls.cert-file" "serverTLS") */}}
{{- define "coordsvc.whereFile" -}}
{{- if (index (index . 0).Values.secrets (index . 2)).name }}secrets.{{ index . 2 }}.name{{ else }}config.{{ index . 1 }}{{ end -}}
{{- end }}

{{- define "coordsvc.check.serverTLS" -}}
{{- $tls := eq (include "coordsvc.tls" .) "true" }}
{{- $require := eq (include "coordsvc.setting" (list . "tls.client-auth" "off")) "require" }}
{{- $files := dict "tls.cert-file" "the certificate" "tls.key-file" "the key of the certificate" }}
{{- range $path, $what := $files }}
{{- $there := include "coordsvc.hasFile" (list $ $path "serverTLS") }}
{{- if and $tls (not $there) }}
config.tls.enabled: needs {{ $what }}; name a Secret in secrets.serverTLS.name, or set config.{{ $path }}
{{- else if and $there (not $tls) }}
{{ include "coordsvc.whereFile" (list $ $path "serverTLS") }}: is given, but config.tls.enabled is false; set it to true, or leave this out
{{- end }}
{{- end }}
{{- $ca := include "coordsvc.hasFile" (list . "tls.client-ca-file" "clientCA") }}
{{- if and $require (not $tls) }}
config.tls.client-auth: require needs TLS; set config.tls.enabled to true
{{- end }}
{{- if and $require (not $ca) }}
config.tls.client-auth: require needs the authorities of the clients; name a Secret in secrets.clientCA.name
{{- end }}
{{- if and $ca (not $require) }}
{{ include "coordsvc.whereFile" (list . "tls.client-ca-file" "clientCA") }}: is given, but clients are not asked for certificates; set config.tls.client-auth to require
{{- end }}
{{- if and (include "coordsvc.setting" (list . "auth.allowed-subjects" "")) (not $require) }}
config.auth.allowed-subjects: is given, but clients are not asked for certificates; set config.tls.client-auth to require
{{- end }}
{{- end }}

{{- define "coordsvc.check.auth" -}}
{{- $issuer := include "coordsvc.setting" (list . "auth.oidc.issuer" "") }}
{{- $audience := include "coordsvc.setting" (list . "auth.oidc.audience" "") }}
{{- if and $issuer (not $audience) }}
config.auth.oidc.issuer: needs config.auth.oidc.audience; without it every token that the issuer made for anybody would be accepted
{{- end }}
{{- if and $audience (not $issuer) }}
config.auth.oidc.audience: is given without config.auth.oidc.issuer
{{- end }}
{{- if and (include "coordsvc.hasFile" (list . "auth.oidc.ca-file" "oidcCA")) (not $issuer) }}
{{ include "coordsvc.whereFile" (list . "auth.oidc.ca-file" "oidcCA") }}: is given without config.auth.oidc.issuer
{{- end }}
{{- $callers := or $issuer (include "coordsvc.hasFile" (list . "auth.token-file" "tokens")) (eq (include "coordsvc.setting" (list . "tls.client-auth" "off")) "require") }}
{{- $policy := or .Values.policy (include "coordsvc.setting" (list . "auth.policy-file" "")) }}
{{- if and $policy (not $callers) }}
policy: nothing tells who is calling; set secrets.tokens.name, config.auth.oidc.issuer or config.tls.client-auth too
{{- end }}
{{- if and .Values.policy (not .Values.policy.rules) }}
policy: has no rules, which would deny every key to everybody; write rules: and under it - callers: [...]
{{- end }}
{{- end }}

{{- define "coordsvc.check.kafkaTLS" -}}
{{- if ne (include "coordsvc.setting" (list . "kafka.tls.enabled" "false")) "true" }}
{{- range $path, $secret := dict "kafka.tls.ca-file" "kafkaCA" "kafka.tls.cert-file" "kafkaClientTLS" "kafka.tls.key-file" "kafkaClientTLS" }}
{{- if include "coordsvc.hasFile" (list $ $path $secret) }}
{{ include "coordsvc.whereFile" (list $ $path $secret) }}: has no effect while config.kafka.tls.enabled is false; set it to true
{{- end }}
{{- end }}
{{- range list "kafka.tls.server-name" "kafka.tls.insecure-skip-verify" }}
{{- if has (include "coordsvc.setting" (list $ . "")) (list "" "false") | not }}
config.{{ . }}: has no effect while config.kafka.tls.enabled is false; set it to true
{{- end }}
{{- end }}
{{- else if not .Values.secrets.kafkaClientTLS.name }}
{{- $cert := include "coordsvc.setting" (list . "kafka.tls.cert-file" "") }}
{{- $key := include "coordsvc.setting" (list . "kafka.tls.key-file" "") }}
{{- if and $cert (not $key) }}
config.kafka.tls.cert-file: needs config.kafka.tls.key-file
{{- else if and $key (not $cert) }}
config.kafka.tls.key-file: needs config.kafka.tls.cert-file
{{- end }}
{{- end }}
{{- end }}

{{- define "coordsvc.check.kafkaSASL" -}}
{{- $mechanism := include "coordsvc.setting" (list . "kafka.sasl.mechanism" "") }}
{{- $username := include "coordsvc.setting" (list . "kafka.sasl.username" "") }}
{{- $password := include "coordsvc.hasFile" (list . "kafka.sasl.password-file" "kafkaPassword") }}
{{- $token := include "coordsvc.hasFile" (list . "kafka.sasl.token-file" "kafkaToken") }}
{{- $endpoint := include "coordsvc.setting" (list . "kafka.sasl.oauth.token-endpoint-url" "") }}
{{- $clientSecret := include "coordsvc.hasFile" (list . "kafka.sasl.oauth.client-secret-file" "kafkaOAuthClientSecret") }}
{{- $passwordAt := include "coordsvc.whereFile" (list . "kafka.sasl.password-file" "kafkaPassword") }}
{{- $tokenAt := include "coordsvc.whereFile" (list . "kafka.sasl.token-file" "kafkaToken") }}
{{- $clientSecretAt := include "coordsvc.whereFile" (list . "kafka.sasl.oauth.client-secret-file" "kafkaOAuthClientSecret") }}
{{- if eq $mechanism "OAUTHBEARER" }}
{{- if and $token $endpoint }}
{{ $tokenAt }}: config.kafka.sasl.oauth.token-endpoint-url is given as well; give one of them
{{- else if not (or $token $endpoint) }}
config.kafka.sasl.mechanism: OAUTHBEARER needs a token in secrets.kafkaToken.name, or config.kafka.sasl.oauth.token-endpoint-url
{{- end }}
{{- if and $endpoint (not (include "coordsvc.setting" (list . "kafka.sasl.oauth.client-id" ""))) }}
config.kafka.sasl.oauth.token-endpoint-url: needs config.kafka.sasl.oauth.client-id
{{- end }}
{{- if and $endpoint (not $clientSecret) }}
config.kafka.sasl.oauth.token-endpoint-url: needs the client's secret; name a Secret in secrets.kafkaOAuthClientSecret.name
{{- end }}
{{- else if $mechanism }}
{{- if not $username }}
config.kafka.sasl.mechanism: {{ $mechanism }} needs config.kafka.sasl.username
{{- end }}
{{- if not $password }}
config.kafka.sasl.mechanism: {{ $mechanism }} needs the password; name a Secret in secrets.kafkaPassword.name
{{- end }}
{{- end }}
{{- if has $mechanism (list "" "OAUTHBEARER") }}
{{- $why := ternary "is not for the mechanism OAUTHBEARER" "has no effect without config.kafka.sasl.mechanism" (eq $mechanism "OAUTHBEARER") }}
{{- if $username }}
config.kafka.sasl.username: {{ $why }}
{{- end }}
{{- if $password }}
{{ $passwordAt }}: {{ $why }}
{{- end }}
{{- end }}
{{- if ne $mechanism "OAUTHBEARER" }}
{{- if $token }}
{{ $tokenAt }}: is for the mechanism OAUTHBEARER, which config.kafka.sasl.mechanism does not say
{{- end }}
{{- if $clientSecret }}
{{ $clientSecretAt }}: is for the mechanism OAUTHBEARER, which config.kafka.sasl.mechanism does not say
{{- end }}
{{- range list "kafka.sasl.oauth.token-endpoint-url" "kafka.sasl.oauth.client-id" "kafka.sasl.oauth.scope" "kafka.sasl.oauth.extensions" }}
{{- if include "coordsvc.setting" (list $ . "") }}
config.{{ . }}: is for the mechanism OAUTHBEARER, which config.kafka.sasl.mechanism does not say
{{- end }}
{{- end }}
{{- else if and $clientSecret (not $endpoint) }}
{{ $clientSecretAt }}: has no effect without config.kafka.sasl.oauth.token-endpoint-url
{{- end }}
{{- end }}

{{/* The name of a client certificate: (list PATH NAME) */}}
{{- define "coordsvc.check.subject" -}}
{{- $name := trimSuffix "*" (index . 1) }}
{{- if not $name }}
{{ index . 0 }}: "*" allows every certificate; leave the setting out for that
{{- else if contains "*" $name }}
{{ index . 0 }}: {{ quote (index . 1) }} has a star that is not at its end
{{- else if not (regexMatch "^(spiffe://[^/@?#:]+/[^?#]*|[^=,/]+)$" $name) }}
{{ index . 0 }}: {{ quote (index . 1) }} is neither a common name, a DNS name nor a SPIFFE id (spiffe://trust-domain/path); of CN=orders,O=Example write orders
{{- end }}
{{- end }}

{{- define "coordsvc.check.texts" -}}
{{- range $path := list "kafka.brokers" "kafka.sasl.oauth.extensions" "auth.allowed-subjects" "auth.oidc.audience" }}
{{- $entries := include "coordsvc.entries" (list $ $path) | fromJsonArray }}
{{- if has "" $entries }}
config.{{ $path }}: has an empty entry; take it out
{{- else if and (not $entries) (kindIs "slice" (include "coordsvc.given" (list $ $path) | fromJson).value) (ne $path "kafka.brokers") }}
config.{{ $path }}: is an empty list; leave it out
{{- end }}
{{- end }}
{{- $names := list }}
{{- range include "coordsvc.setting" (list . "kafka.sasl.oauth.extensions" "") | splitList "," | compact }}
{{- $name := regexFind "^[^=]*" (trim .) }}
{{- if or (not (regexMatch "^[A-Za-z]+=[ -~]*$" (trim .))) (eq $name "auth") }}
config.kafka.sasl.oauth.extensions: {{ $name }} is not name=value; a name has letters only, and auth is taken
{{- else if has $name $names }}
config.kafka.sasl.oauth.extensions: {{ $name }} is given twice
{{- end }}
{{- $names = append $names $name }}
{{- end }}
{{- range include "coordsvc.entries" (list . "auth.allowed-subjects") | fromJsonArray | compact }}
{{- include "coordsvc.check.subject" (list "config.auth.allowed-subjects" .) }}
{{- end }}
{{- range (.Values.policy | default dict).rules }}
{{- range .callers }}
{{- if and (hasPrefix "cert:" .) (not (has . (list "cert:" "cert:*"))) }}
{{- include "coordsvc.check.subject" (list "policy.rules" (trimPrefix "cert:" .)) }}
{{- end }}
{{- end }}
{{- end }}
{{- range list "auth.oidc.issuer" "kafka.sasl.oauth.token-endpoint-url" "tracing.endpoint" }}
{{- $url := include "coordsvc.setting" (list $ . "") }}
{{- if and $url (not (regexMatch "^https?://[^/@?# ]+([/?#][^ ]*)?$" $url)) }}
config.{{ . }}: is not a URL without user and password, such as https://login.example/path
{{- else if and (contains "?" $url | or (contains "#" $url)) (ne . "kafka.sasl.oauth.token-endpoint-url") }}
config.{{ . }}: has a query or a fragment; give only scheme, host, port and, if need be, a path
{{- else if gt (regexFind ":[0-9]+" (trimPrefix "https:" $url | trimPrefix "http:" | regexFind "^//[^/?#]*") | trimPrefix ":" | atoi) 65535 }}
config.{{ . }}: has a port above 65535, which is the last
{{- end }}
{{- end }}
{{- if regexMatch "^http://" (include "coordsvc.setting" (list . "auth.oidc.issuer" "")) }}
{{- if not (regexMatch "^http://(localhost|127[.][0-9.]+|\\[::1\\])(:|/|$)" (include "coordsvc.setting" (list . "auth.oidc.issuer" ""))) }}
config.auth.oidc.issuer: must begin with https://, for whoever can answer for the issuer can sign tokens
{{- end }}
{{- end }}
{{- if eq "" (toString (include "coordsvc.given" (list . "kafka.sasl.oauth.token-endpoint-url") | fromJson).value) }}
config.kafka.sasl.oauth.token-endpoint-url: is empty; give a URL, such as https://login.example/oauth2/token, or leave it out
{{- end }}
{{- $client := include "coordsvc.setting" (list . "kafka.client-id" "coordsvc") }}
{{- if or (not (regexMatch "^[^\\pC]+$" $client)) (gt (len $client) 255) }}
config.kafka.client-id: is not 1 to 255 bytes of printable text
{{- end }}
{{- end }}

{{- define "coordsvc.check.limits" -}}
{{- range $path, $limit := .Files.Get "files/limits.yaml" | fromYaml }}
{{- $text := include "coordsvc.setting" (list $ $path "") }}
{{- if $text }}
{{- $measure := ternary "coordsvc.bytes" "coordsvc.exactSeconds" (hasSuffix "B" $limit.max) }}
{{- $value := include $measure $text | float64 }}
{{- if or (lt $value (include $measure $limit.min | float64)) (gt $value (include $measure $limit.max | float64)) }}
config.{{ $path }}: {{ $text }} is not from {{ $limit.min }} to {{ $limit.max }}
{{- end }}
{{- end }}
{{- end }}
{{- $default := include "coordsvc.setting" (list . "lookup.default-timeout" "5s") }}
{{- $max := include "coordsvc.setting" (list . "lookup.max-timeout" "30s") }}
{{- if lt (include "coordsvc.exactSeconds" $max | float64) (include "coordsvc.exactSeconds" $default | float64) }}
config.lookup.max-timeout: {{ $max }} is less than config.lookup.default-timeout, which is {{ $default }}
{{- end }}
{{- $keys := include "coordsvc.setting" (list . "lookup.max-keys" "10000") | float64 }}
{{- if lt (include "coordsvc.setting" (list . "limits.max-waiting-keys" "1000000") | float64) $keys }}
config.limits.max-waiting-keys: is less than config.lookup.max-keys, which is {{ int64 $keys }}; the largest call could never be served
{{- end }}
{{- /* Four bytes for each byte of the largest call, 512 for each of its keys, and a quarter of the whole for small calls. */ -}}
{{- $call := addf (mulf 4 (include "coordsvc.setting" (list . "limits.max-message-bytes" "8MiB") | include "coordsvc.bytes")) (mulf 512 $keys) }}
{{- $least := addf $call (divf $call 3 | floor) 1 }}
{{- $memory := include "coordsvc.setting" (list . "limits.max-calls-memory" "0B") }}
{{- $bytes := include "coordsvc.bytes" $memory | float64 }}
{{- if and (gt $bytes 0.0) (lt $bytes $least) }}
config.limits.max-calls-memory: {{ $memory }} is less than the {{ divf $least 1048576 | ceil }}MiB that one call of config.limits.max-message-bytes with config.lookup.max-keys keys needs
{{- end }}
{{- if not (kindIs "invalid" .Values.terminationGracePeriodSeconds) }}
{{- if lt (int .Values.terminationGracePeriodSeconds) (include "coordsvc.stopSeconds" . | int) }}
terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }} is less than preStopSleepSeconds, config.shutdown.drain-delay and config.shutdown.drain-timeout together, which are {{ include "coordsvc.stopSeconds" . }}; Pods would be killed with calls in flight
{{- end }}
{{- end }}
{{- end }}

{{/* How many of N Pods a number or a percentage is, rounded up: (list "25%" 3) */}}
{{- define "coordsvc.share" -}}
{{- $text := index . 0 | toString -}}
{{- if hasSuffix "%" $text -}}
{{- divf (mulf (trimSuffix "%" $text | float64) (index . 1)) 100 | ceil | int -}}
{{- else -}}
{{- int (index . 0) -}}
{{- end -}}
{{- end }}

{{/* What a Pod requests of a resource, which is its limit where only that is given: (list . "cpu") */}}
{{- define "coordsvc.requested" -}}
{{- $resources := (index . 0).Values.resources | default dict -}}
{{- dig (index . 1) "" ($resources.requests | default dict) | default (dig (index . 1) "" ($resources.limits | default dict)) -}}
{{- end }}

{{/* The number that a quantity of Kubernetes is: that of 100m is 0.1, that of 1Ki 1024. */}}
{{- define "coordsvc.quantity" -}}
{{- $units := dict "n" 1e-9 "u" 1e-6 "m" 1e-3 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976 -}}
{{- $unit := regexFind "[numkMGTPE]i?$" (toString .) -}}
{{- mulf (trimSuffix $unit (toString .) | float64) (get $units $unit | default 1) -}}
{{- end }}

{{- define "coordsvc.check.resources" -}}
{{- $resources := .Values.resources | default dict }}
{{- range $kind := list "requests" "limits" }}
{{- $memory := dig "memory" nil (index $resources $kind | default dict) }}
{{- $bytes := include "coordsvc.quantity" ($memory | default 0) | float64 }}
{{- if and (gt $bytes 0.0) (lt $bytes 1048576.0) }}
resources.{{ $kind }}.memory: {{ $memory }} is less than a megabyte; give a unit, as in 256Mi (m is a thousandth)
{{- end }}
{{- end }}
{{- range $resource, $request := $resources.requests }}
{{- $limit := dig $resource nil ($resources.limits | default dict) }}
{{- if not (or (kindIs "invalid" $request) (kindIs "invalid" $limit)) }}
{{- if gt (include "coordsvc.quantity" $request | float64) (include "coordsvc.quantity" $limit | float64) }}
resources.requests.{{ $resource }}: {{ $request }} is more than resources.limits.{{ $resource }}, which is {{ $limit }}; raise the limit or lower the request
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "coordsvc.check.availability" -}}
{{- $hpa := .Values.autoscaling }}
{{- $pods := ternary $hpa.minReplicas .Values.replicaCount $hpa.enabled | int }}
{{- $from := ternary "autoscaling.minReplicas" "replicaCount" $hpa.enabled }}
{{- if .Values.podDisruptionBudget.enabled }}
{{- $budget := .Values.podDisruptionBudget.maxUnavailable }}
{{- if has (toString $budget) (list "0" "0%") }}
podDisruptionBudget.maxUnavailable: {{ $budget }} lets no node be drained, ever; allow 1, or disable the budget
{{- else if and (or (gt $pods 1) $hpa.enabled) (ge (include "coordsvc.share" (list $budget $pods) | int) $pods) }}
podDisruptionBudget.maxUnavailable: {{ $budget }} may take all Pods at once, as {{ $from }} is {{ $pods }}; lower it, or raise {{ $from }}
{{- end }}
{{- end }}
{{- if $hpa.enabled }}
{{- if lt (int $hpa.maxReplicas) (int $hpa.minReplicas) }}
autoscaling.maxReplicas: {{ $hpa.maxReplicas }} is less than autoscaling.minReplicas, which is {{ $hpa.minReplicas }}
{{- end }}
{{- range $resource, $name := dict "cpu" "targetCPUUtilizationPercentage" "memory" "targetMemoryUtilizationPercentage" }}
{{- if and (not (kindIs "invalid" (index $hpa $name))) (not (include "coordsvc.requested" (list $ $resource))) }}
autoscaling.{{ $name }}: is a share of resources.requests.{{ $resource }}, which is not set; set it, or set this to null
{{- end }}
{{- end }}
{{- if and (kindIs "invalid" $hpa.targetCPUUtilizationPercentage) (kindIs "invalid" $hpa.targetMemoryUtilizationPercentage) (not $hpa.metrics) }}
autoscaling.targetCPUUtilizationPercentage: is null, and so is every other metric; the autoscaler needs one to go by
{{- end }}
{{- end }}
{{- if and (has (toString .Values.rollingUpdate.maxSurge) (list "0" "0%")) (has (toString .Values.rollingUpdate.maxUnavailable) (list "0" "0%")) }}
rollingUpdate.maxUnavailable: is 0, and so is rollingUpdate.maxSurge; no Pod could ever be replaced
{{- end }}
{{- end }}

{{- define "coordsvc.check.image" -}}
{{- $repository := .Values.image.repository }}
{{- if regexMatch "(/.*|^[^/.]+):[^/]*$" $repository }}
image.repository: {{ quote $repository }} ends with a tag; put that into image.tag
{{- else if not (regexMatch "^([^/]+[.:][^/]*/|localhost/)?[a-z0-9]+([-._/]+[a-z0-9]+)*$" $repository) }}
image.repository: {{ quote $repository }} is not the name of an image, such as registry.example:5000/tools/coordsvc; after the registry it has small letters, digits and - . _ / only
{{- end }}
{{- end }}

{{- define "coordsvc.check.exposure" -}}
{{- range $path, $hosts := dict "ingress.http.hosts" .Values.ingress.http.hosts "ingress.grpc.hosts" .Values.ingress.grpc.hosts "gateway.httpRoute.hostnames" .Values.gateway.httpRoute.hostnames "gateway.grpcRoute.hostnames" .Values.gateway.grpcRoute.hostnames }}
{{- range $hosts }}
{{- if regexMatch "^[0-9.]+$" . }}
{{ $path }}: {{ . }} is an IP address; give a name
{{- end }}
{{- end }}
{{- end }}
{{- range $protocol, $ingress := .Values.ingress }}
{{- if and $ingress.enabled (not $ingress.hosts) }}
ingress.{{ $protocol }}.hosts: is empty; an Ingress without a host would take the requests of every other
{{- end }}
{{- end }}
{{- with .Values.ingress }}
{{- if and .http.enabled .grpc.enabled (eq .http.path .grpc.path) }}
{{- range .grpc.hosts }}
{{- if has . $.Values.ingress.http.hosts }}
ingress.grpc.hosts: {{ . }} is in ingress.http.hosts as well, with the same path; give gRPC its own name
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- range $name, $route := .Values.gateway }}
{{- if and $route.enabled (not $route.parentRefs) }}
gateway.{{ $name }}.parentRefs: is empty; name the Gateway that the route belongs to
{{- end }}
{{- end }}
{{- with .Values.gateway }}
{{- if and .httpRoute.enabled .grpcRoute.enabled }}
{{- $shared := and (not .httpRoute.hostnames) (not .grpcRoute.hostnames) }}
{{- range .grpcRoute.hostnames }}{{ $shared = or $shared (has . $.Values.gateway.httpRoute.hostnames) }}{{ end }}
{{- range .grpcRoute.parentRefs }}
{{- if and $shared (has . $.Values.gateway.httpRoute.parentRefs) }}
gateway.grpcRoute.hostnames: the HTTPRoute has the same names at the same Gateway, which takes only one of them; give gRPC its own name
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if and .Values.service.loadBalancerSourceRanges (ne .Values.service.type "LoadBalancer") }}
service.loadBalancerSourceRanges: has no effect while service.type is {{ .Values.service.type }}
{{- end }}
{{- if and (has .Values.service.trafficDistribution (list "PreferSameZone" "PreferSameNode")) (semverCompare "<1.34.0-0" .Capabilities.KubeVersion.Version) }}
service.trafficDistribution: {{ .Values.service.trafficDistribution }} needs Kubernetes 1.34; this is {{ .Capabilities.KubeVersion.Version }}
{{- end }}
{{- with .Values.networkPolicy }}
{{- range list "grpcFrom" "httpFrom" "adminFrom" }}
{{- if and (index $.Values.networkPolicy .) (not $.Values.networkPolicy.enabled) }}
networkPolicy.{{ . }}: has no effect while networkPolicy.enabled is false
{{- end }}
{{- end }}
{{- range $path, $peers := dict "grpcFrom" .grpcFrom "httpFrom" .httpFrom "adminFrom" .adminFrom "egress.brokersTo" .egress.brokersTo }}
{{- range $peers }}
{{- if and .ipBlock (or (hasKey . "podSelector") (hasKey . "namespaceSelector")) }}
networkPolicy.{{ $path }}: an entry has ipBlock and a selector; make two entries of it
{{- end }}
{{- end }}
{{- end }}
{{- if and .egress.enabled (not .enabled) }}
networkPolicy.egress.enabled: has no effect while networkPolicy.enabled is false
{{- end }}
{{- if and (or .egress.brokersTo .egress.extra) (not .egress.enabled) }}
networkPolicy.egress: brokersTo and extra have no effect while networkPolicy.egress.enabled is false
{{- end }}
{{- end }}
{{- end }}

{{- define "coordsvc.check.metrics" -}}
{{- with .Values.metrics }}
{{- if and .serviceMonitor.enabled .podMonitor.enabled }}
metrics.podMonitor.enabled: metrics.serviceMonitor.enabled is true as well; Prometheus would scrape each Pod twice
{{- end }}
{{- if and .serviceMonitor.enabled (not $.Values.service.headless.enabled) }}
metrics.serviceMonitor.enabled: finds the Pods by the headless Service; set service.headless.enabled, or take metrics.podMonitor
{{- end }}
{{- range $name := list "serviceMonitor" "podMonitor" }}
{{- $monitor := index $.Values.metrics $name }}
{{- if and $monitor.interval $monitor.scrapeTimeout }}
{{- if gt (include "coordsvc.exactSeconds" $monitor.scrapeTimeout | float64) (include "coordsvc.exactSeconds" $monitor.interval | float64) }}
metrics.{{ $name }}.scrapeTimeout: {{ $monitor.scrapeTimeout }} is longer than metrics.{{ $name }}.interval, which is {{ $monitor.interval }}
{{- end }}
{{- end }}
{{- end }}
{{- $alerts := list }}
{{- range ($.Files.Get "files/coordsvc.rules.yaml" | fromYaml).groups }}{{ range .rules }}{{ $alerts = append $alerts .alert }}{{ end }}{{ end }}
{{- range .prometheusRule.disabledAlerts }}
{{- if not (has . $alerts) }}
metrics.prometheusRule.disabledAlerts: there is no alert {{ quote . }}; there are {{ join ", " $alerts }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "coordsvc.check.extras" -}}
{{- $names := list }}
{{- range .Values.extraEnv }}
{{- if hasPrefix "COORDSVC_" .name }}
extraEnv: {{ .name }} is a setting, and would beat what config says without the chart knowing; set it under config, a secret under secrets
{{- end }}
{{- if has .name $names }}
extraEnv: {{ .name }} is there twice
{{- end }}
{{- if and (eq .name "GOMEMLIMIT") (not (regexMatch "^(off|[0-9]+(B|[KMGT]iB)?)?$" (.value | default ""))) }}
extraEnv: GOMEMLIMIT {{ quote .value }} is not what Go takes, and the program would not start; write for example 200MiB
{{- end }}
{{- if and .value .valueFrom }}
extraEnv: {{ .name }} has value and valueFrom; give one of them
{{- end }}
{{- $names = append $names .name }}
{{- end }}
{{- $volumes := list }}
{{- range include "coordsvc.volumes" . | fromYamlArray }}{{ $volumes = append $volumes .name }}{{ end }}
{{- range .Values.extraVolumes }}
{{- if has .name $volumes }}
extraVolumes: the name {{ .name }} is taken by a volume of the chart or stands there twice; choose another
{{- end }}
{{- if gt (len .) 2 }}
extraVolumes: {{ .name }} is more than one kind of volume: {{ omit . "name" | keys | sortAlpha | join ", " }}; give each a name of its own
{{- end }}
{{- $volumes = append $volumes .name }}
{{- end }}
{{- $mounted := list }}
{{- range .Values.extraVolumeMounts }}
{{- if has (clean .mountPath) $mounted }}
extraVolumeMounts: {{ .mountPath }} is there twice
{{- end }}
{{- $mounted = append $mounted (clean .mountPath) }}
{{- if not (has .name $volumes) }}
extraVolumeMounts: there is no volume {{ .name }}; add it to extraVolumes
{{- end }}
{{- if regexMatch "^/etc/coordsvc(/(config|policy|secrets)(/.*)?)?$" (clean .mountPath) }}
extraVolumeMounts: {{ .mountPath }} is where the chart mounts the settings and Secrets; choose another path
{{- end }}
{{- end }}
{{- $containers := list "coordsvc" }}
{{- range concat (.Values.extraContainers | default list) (.Values.extraInitContainers | default list) }}
{{- if has .name $containers }}
extraContainers: the name {{ .name }} is taken; choose another
{{- end }}
{{- $containers = append $containers .name }}
{{- end }}
{{- range $field := list "podLabels" "commonLabels" }}
{{- range $label, $value := index $.Values $field }}
{{- if or (hasPrefix "app.kubernetes.io/" $label) (eq $label "helm.sh/chart") }}
{{ $field }}: {{ $label }} is the chart's own: the Services find the Pods by it; choose another
{{- end }}
{{- end }}
{{- end }}
{{- if hasKey (.Values.podAnnotations | default dict) "checksum/config" }}
podAnnotations: checksum/config is the chart's own: changed settings make new Pods by it; choose another
{{- end }}
{{- end }}
