{{/*
The webhook configurations that call Pillion's Service, as JSON: arguments, rights
and annotations follow from this one list.
*/}}
{{- define "pillion.webhookConfigurations" -}}
{{- $own := list (dict "kind" "MutatingWebhookConfiguration" "name" .Values.webhook.name) -}}
{{- if include "pillion.validates" . -}}
{{- $own = append $own (dict "kind" "ValidatingWebhookConfiguration" "name" .Values.webhook.name) -}}
{{- end -}}
{{- concat $own .Values.certs.webhookConfigurations | uniq | toJson -}}
{{- end -}}

{{/* Whether the chart has validating webhooks: text if so. */}}
{{- define "pillion.validates" -}}
{{- if or .Values.clusterTemplates .Values.webhook.required.enabled }}yes{{ end -}}
{{- end -}}

{{/* The arguments of `pillion serve` that are about certificates. */}}
{{- define "pillion.certificateArgs" -}}
{{- $certs := .Values.certs -}}
{{- range include "pillion.webhookConfigurations" . | fromJsonArray }}
- --{{ if eq .kind "ValidatingWebhookConfiguration" }}validating-{{ end }}webhook-configuration={{ .name }}
{{- end }}
- --certs-provider={{ $certs.provider }}
- --ca-duration={{ $certs.caDuration }}
- --leaf-duration={{ $certs.leafDuration }}
- --ca-settle={{ $certs.settle }}
{{- if eq $certs.provider "self-signed" }}
- --ca-secret={{ $certs.secretName }}
- --key-algorithm={{ $certs.keyAlgorithm }}
{{- else if eq $certs.provider "cert-manager" }}
- --serving-secret={{ $certs.certManager.secretName }}
- --publish-ca={{ $certs.certManager.publish }}
{{- else }}
- --cert-file=/etc/pillion/certificate/tls.crt
- --key-file=/etc/pillion/certificate/tls.key
{{- end }}
{{- end -}}

{{/* What Pillion may do with Secrets: nothing but what the provider needs. */}}
{{- define "pillion.certificateRules" -}}
{{- $certs := .Values.certs -}}
{{- if eq $certs.provider "self-signed" -}}
# The CA of the serving certificates, shared by the replicas.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ $certs.secretName }}]
  verbs: [get, list, watch, update]
# Whichever replica comes first makes it. `create` cannot be limited by name: a request
# to create carries no name that authorization could look at.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
{{- else if eq $certs.provider "cert-manager" -}}
{{- if $certs.certManager.publish -}}
# The serving certificate. Pillion keeps the CAs that were replaced in a key of its own.
{{- else -}}
# The serving certificate.
{{- end }}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ $certs.certManager.secretName }}]
  verbs: [{{ if $certs.certManager.publish }}get, list, watch, update{{ else }}list, watch{{ end }}]
{{- end -}}
{{- end -}}

{{/* What Pillion may do with webhook configurations. */}}
{{- define "pillion.configurationRules" -}}
{{- $publish := or (eq .Values.certs.provider "self-signed") (and (eq .Values.certs.provider "cert-manager") .Values.certs.certManager.publish) -}}
{{- if $publish -}}
# The CA goes into the caBundle fields of these configurations, by a JSON patch that
# changes nothing else.
{{- else -}}
# Pillion is ready when the CA is in the caBundle fields of these configurations.
{{- end }}
{{- range $kind := list "MutatingWebhookConfiguration" "ValidatingWebhookConfiguration" }}
{{- $names := list }}
{{- range include "pillion.webhookConfigurations" $ | fromJsonArray }}
{{- if eq .kind $kind }}{{ $names = append $names .name }}{{ end }}
{{- end }}
{{- if $names }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [{{ lower $kind }}s]
  resourceNames: {{ toJson $names }}
  verbs: [{{ if $publish }}list, watch, patch{{ else }}list, watch{{ end }}]
{{- end }}
{{- end }}
{{- end -}}

{{/* The annotations of the chart's webhook configurations; empty if there are none. */}}
{{- define "pillion.webhookAnnotations" -}}
{{- if and (eq .Values.certs.provider "cert-manager") .Values.certs.certManager.cainjector -}}
cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ include "pillion.fullname" . }}
{{- end -}}
{{- end -}}
