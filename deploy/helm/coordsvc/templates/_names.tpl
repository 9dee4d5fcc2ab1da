{{/* Names and labels. Names of Services may have 63 characters and must begin with a letter; the longest suffix here has 10. */}}

{{- define "coordsvc.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "coordsvc.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := .Values.fullnameOverride -}}
{{- if not $full -}}
{{- /* Release names may hold dots and begin with a digit, names of Services may not. */ -}}
{{- $release := .Release.Name | replace "." "-" -}}
{{- if regexMatch "^[0-9]" $release -}}
{{- $full = printf "%s-%s" $name $release -}}
{{- else if contains $name $release -}}
{{- $full = $release -}}
{{- else -}}
{{- $full = printf "%s-%s" $release $name -}}
{{- end -}}
{{- end -}}
{{- regexReplaceAll "-+$" (trunc 53 $full) "" -}}
{{- end }}

{{- define "coordsvc.serviceAccountName" -}}
{{- default (ternary (include "coordsvc.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end }}

{{/* What the Services, budgets and policies know the Pods by. It never changes: a Deployment's selector cannot. */}}
{{- define "coordsvc.selectorLabels" -}}
app.kubernetes.io/name: {{ include "coordsvc.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: server
{{- end }}

{{/* What the Pod of helm test has in place of them. */}}
{{- define "coordsvc.testLabels" -}}
app.kubernetes.io/name: {{ include "coordsvc.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: test
{{- end }}

{{- define "coordsvc.baseLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/name: {{ include "coordsvc.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
{{- end }}

{{/* Labels of the Pods. The chart's version is not among them: a new chart alone needs no new Pods. */}}
{{- define "coordsvc.podLabels" -}}
{{- $labels := include "coordsvc.selectorLabels" . | fromYaml -}}
{{- toYaml (merge $labels (.Values.podLabels | default dict) (.Values.commonLabels | default dict)) -}}
{{- end }}

{{/* Labels of every other object: (list . EXTRA...). What is the chart's own wins. */}}
{{- define "coordsvc.labels" -}}
{{- $root := first . -}}
{{- $labels := include "coordsvc.baseLabels" $root | fromYaml -}}
{{- range concat (rest .) (list $root.Values.commonLabels) -}}
{{- $labels = merge $labels (. | default dict) -}}
{{- end -}}
{{- toYaml $labels -}}
{{- end }}

{{/* The metadata of an object: (list . SUFFIX ANNOTATIONS LABELS) */}}
{{- define "coordsvc.metadata" -}}
{{- $root := index . 0 -}}
name: {{ printf "%s%s" (include "coordsvc.fullname" $root) (index . 1) | quote }}
namespace: {{ $root.Release.Namespace | quote }}
labels:
  {{- include "coordsvc.labels" (list $root (index . 3)) | nindent 2 }}
{{- with index . 2 }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "coordsvc.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{- /* Tags may not hold a plus sign, versions may. */ -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion | replace "+" "-" }}
{{- end -}}
{{- end -}}
{{- end }}
