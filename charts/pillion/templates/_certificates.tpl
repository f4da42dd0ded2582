{{/* The Secret that cert-manager writes the serving certificate into. */}}
{{- define "pillion.servingSecret" -}}
{{ include "pillion.fullname" . }}-serving
{{- end -}}

{{/*
A duration in nanoseconds. Templates have no function for it, but moments can be moved by
one: the text is read by the same Go function as in Pillion.
*/}}
{{- define "pillion.nanoseconds" -}}
{{- $start := toDate "2006-01-02" "2000-01-01" -}}
{{- ((mustDateModify . $start).Sub $start).Nanoseconds -}}
{{- end -}}

{{/* Fails where Pillion would not start with the durations, or cert-manager not issue. */}}
{{- define "pillion.checkDurations" -}}
{{- $certs := .Values.certs -}}
{{- $ca := include "pillion.nanoseconds" $certs.caDuration | int64 -}}
{{- $leaf := include "pillion.nanoseconds" $certs.leafDuration | int64 -}}
{{- $settle := include "pillion.nanoseconds" $certs.settle | int64 -}}
{{- $hour := include "pillion.nanoseconds" "1h" | int64 -}}
{{- if or (lt $leaf (include "pillion.nanoseconds" "3s" | int64)) (ge $leaf $ca) -}}
{{- fail (printf "certs.leafDuration is %s: allowed is from 3s to less than certs.caDuration, which is %s" $certs.leafDuration $certs.caDuration) -}}
{{- end -}}
{{- if gt $settle (div $ca 4) -}}
{{- fail (printf "certs.settle is %s: allowed is at most a quarter of certs.caDuration, which is %s" $certs.settle $certs.caDuration) -}}
{{- end -}}
{{- if and (eq $certs.provider "cert-manager") (lt $leaf $hour) -}}
{{- fail (printf "certs.leafDuration is %s: cert-manager issues certificates of at least 1h" $certs.leafDuration) -}}
{{- end -}}
{{- end -}}

{{/* The settings about certificates. */}}
{{- define "pillion.certificateSettings" -}}
{{- include "pillion.checkDurations" . -}}
{{- $certs := .Values.certs -}}
provider: {{ $certs.provider }}
webhookConfiguration: {{ .Values.webhook.name | quote }}
caDuration: {{ $certs.caDuration }}
leafDuration: {{ $certs.leafDuration }}
settle: {{ $certs.settle }}
{{- if eq $certs.provider "self-signed" }}
secret: pillion-ca
createSecret: {{ .Values.rbac.createSecrets }}
{{- else if eq $certs.provider "cert-manager" }}
secret: {{ include "pillion.servingSecret" . }}
publish: {{ $certs.certManager.publish }}
{{- else }}
folder: /etc/pillion/certificate
{{- end }}
{{- end -}}

{{/* What Pillion may do with Secrets: nothing but what the provider needs. */}}
{{- define "pillion.certificateRules" -}}
{{- $certs := .Values.certs -}}
{{- if eq $certs.provider "self-signed" -}}
# The CA of the serving certificates, shared by the replicas.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [pillion-ca]
  verbs: [get, list, watch, update]
{{- if .Values.rbac.createSecrets }}
{{- if eq .Release.Namespace "kube-system" }}
{{- fail "rbac.createSecrets: in kube-system whoever may create Secrets can make bootstrap tokens, and log in with them: install into a namespace of Pillion's own, or set rbac.createSecrets=false" }}
{{- end }}
# Whichever replica comes first makes it. `create` cannot be limited by name: a request
# to create carries no name that authorization could look at. So the release's namespace
# is to be its own, or rbac.createSecrets false: then the chart makes the Secret.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
{{- end }}
{{- else if eq $certs.provider "cert-manager" -}}
{{- if $certs.certManager.publish -}}
# The serving certificate. Pillion keeps the CAs that were replaced in a key of its own.
{{- else -}}
# The serving certificate.
{{- end }}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ include "pillion.servingSecret" . | quote }}]
  verbs: [{{ if $certs.certManager.publish }}get, list, watch, update{{ else }}list, watch{{ end }}]
{{- end -}}
{{- end -}}

{{/* Whether Pillion writes the CA into the webhook configurations: text if so. */}}
{{- define "pillion.publishes" -}}
{{- if or (eq .Values.certs.provider "self-signed") (and (eq .Values.certs.provider "cert-manager") .Values.certs.certManager.publish) }}yes{{ end -}}
{{- end -}}

{{/* Fails where the hardened installation would need a right that it must not have. */}}
{{- define "pillion.checkHardened" -}}
{{- if and .Values.rbac.hardened (include "pillion.publishes" .) -}}
{{- $why := "the right to patch webhook configurations, with which a stolen token can do what a cluster admin can" -}}
{{- $set := "set certs.provider=files and certs.files.secretName, or certs.provider=cert-manager with certs.certManager.publish=false" -}}
{{- fail (printf "rbac.hardened=true: certs.provider=%s%s needs %s; %s" .Values.certs.provider (eq .Values.certs.provider "cert-manager" | ternary " with certs.certManager.publish=true" "") $why $set) -}}
{{- end -}}
{{- if and .Values.rbac.hardened (not .Values.rbac.admissionPolicy) -}}
{{- fail "rbac.hardened=true: Pillion needs the right to patch namespaces, and to create pods in the proof namespace, with which a stolen token can change every label and run pods; set rbac.admissionPolicy=true, which holds it to Pillion's own labels and to dry runs" -}}
{{- end -}}
{{- end -}}

{{/* What Pillion may do with webhook configurations. */}}
{{- define "pillion.configurationRules" -}}
{{- $publish := include "pillion.publishes" . -}}
{{- if $publish -}}
# The CA goes into the caBundle fields of these configurations, by a JSON patch that
# changes nothing else.
{{- else -}}
# Pillion is ready when the CA is in the caBundle fields of these configurations.
{{- end }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  resourceNames: [{{ .Values.webhook.name | quote }}]
  verbs: [{{ if $publish }}list, watch, patch{{ else }}list, watch{{ end }}]
{{- end -}}

{{/*
The annotations of the chart's webhook configurations. The first makes AKS leave their selectors
unchanged, which is safe because Pillion excludes kube-system itself.
*/}}
{{- define "pillion.webhookAnnotations" -}}
{{- $annotations := dict "admissions.enforcer/disabled" "true" -}}
{{- if and (eq .Values.certs.provider "cert-manager") (not .Values.certs.certManager.publish) -}}
{{- $_ := set $annotations "cert-manager.io/inject-ca-from" (printf "%s/%s" .Release.Namespace (include "pillion.fullname" .)) -}}
{{- end -}}
{{- toYaml $annotations -}}
{{- end -}}
