{{- define "pawl.labels" -}}
app.kubernetes.io/name: pawl
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: pawl
{{- end }}

{{- define "pawl.selector" -}}
app.kubernetes.io/name: pawl
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "pawl.image" -}}
{{- $name := index . 0 -}}{{- $image := index . 1 -}}
{{- required (printf "image.%s is not set: name the image that was built from the target %s of the Dockerfile, e.g. --set image.%s=registry.example/pawl-%s:0.1.0" $name $name $name $name) $image -}}
{{- end }}

{{/* What nodes say before their machines go: the rows of signals.json, and the user's own. */}}
{{- define "pawl.signals" -}}
{{- concat (.Files.Get "signals.json" | fromJsonArray) .Values.interruptions.extraSignals | toJson -}}
{{- end }}

{{/* The levels of the network, coarse to fine: the user's own, else those of the preset, else nodes alone. */}}
{{- define "pawl.levels" -}}
{{- $placement := .Values.placement | default dict -}}
{{- $presets := .Files.Get "levels.json" | fromJson -}}
{{- $levels := $placement.levels | default (get $presets ($placement.preset | default "")) | default (list "nodes") -}}
{{- join "," $levels -}}
{{- end }}

{{/* By what nodes are known as spot: the rows of spot.json, and the user's own. */}}
{{- define "pawl.spot" -}}
{{- concat (.Files.Get "spot.json" | fromJsonArray) ((.Values.capacity).extraSpotLabels | default list) | toJson -}}
{{- end }}
