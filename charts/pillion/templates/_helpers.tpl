{{/* The chart's name. */}}
{{- define "pillion.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/*
The name of the release's objects in its namespace. At most 55 characters, which
leaves room for a suffix such as -metrics: names of Services are DNS labels.
*/}}
{{- define "pillion.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 55 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 55 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 55 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The name of objects of the whole cluster: releases in two namespaces may have the same name. */}}
{{- define "pillion.clusterName" -}}
{{- printf "%s-%s" (include "pillion.fullname" .) .Release.Namespace -}}
{{- end -}}

{{- define "pillion.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "pillion.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is required when serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "pillion.selectorLabels" -}}
app.kubernetes.io/name: {{ include "pillion.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "pillion.labels" -}}
{{ include "pillion.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "pillion.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{/* Pillion's service account, as the API server names its user. */}}
{{- define "pillion.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "pillion.serviceAccountName" . }}
{{- end -}}

{{/* The ConfigMap in which replicas record the templates in use. */}}
{{- define "pillion.inUseRecord" -}}
{{- printf "%s-templates-in-use" (include "pillion.fullname" .) -}}
{{- end -}}

{{/* Whether Pillion reads what workloads and pods name: text if so. */}}
{{- define "pillion.readsWorkloads" -}}
{{- if and .Values.clusterTemplates .Values.rbac.readWorkloads (not .Values.rbac.hardened) }}yes{{ end -}}
{{- end -}}

{{/* Whether previews read what limits the pods of a namespace: text if so. */}}
{{- define "pillion.readsLimits" -}}
{{- if and .Values.preview.enabled (not .Values.rbac.hardened) }}yes{{ end -}}
{{- end -}}

{{/* Whether Pillion shows the templates of files as SidecarTemplates: text if so. */}}
{{- define "pillion.mirrors" -}}
{{- if and .Values.clusterTemplates .Values.mirrorTemplates .Values.rbac.admissionPolicy (not .Values.rbac.hardened) }}yes{{ end -}}
{{- end -}}

{{/* The policy that holds Pillion to mirrors, and that owns them. */}}
{{- define "pillion.mirrorPolicy" -}}
{{ include "pillion.clusterName" . }}-mirrors
{{- end -}}

{{/* Another text for each set of templates that a version of the release shows. */}}
{{- define "pillion.mirrorRevision" -}}
{{- list (include "pillion.image" .) (default list .Values.library) (default dict .Values.templates) (default dict .Values.values) | toJson | sha256sum | trunc 16 -}}
{{- end -}}

{{/* The namespaces that Pillion keeps out of, its own among them, as JSON. */}}
{{- define "pillion.excludedNamespaces" -}}
{{- append (default list .Values.excludedNamespaces) .Release.Namespace | uniq | toJson -}}
{{- end -}}

{{/*
Whether Pillion proves that it works: text if so. Fails where the values contradict each other.
*/}}
{{- define "pillion.proves" -}}
{{- include "pillion.checkHardened" . -}}
{{- if eq .Values.enforcement.mode "Auto" -}}
{{- if has (include "pillion.proofNamespace" .) (include "pillion.excludedNamespaces" . | fromJsonArray) -}}
{{- fail (printf "enforcement.proofNamespace is %s, where Pillion injects nothing: it needs a namespace of its own, which is neither the release's nor in excludedNamespaces" (include "pillion.proofNamespace" .)) -}}
{{- end -}}
{{- if hasKey (default dict .Values.templates) "pillion-proof" -}}
{{- fail "templates.pillion-proof: the name belongs to a template of Pillion's own, by which it proves that it works; take another one, or set enforcement.mode=Manual" -}}
{{- end -}}
yes
{{- end -}}
{{- end -}}

{{/* The namespace of the pods by which Pillion proves that it works. */}}
{{- define "pillion.proofNamespace" -}}
{{- default (printf "%s-proof" (.Release.Namespace | trunc 57 | trimSuffix "-")) .Values.enforcement.proofNamespace -}}
{{- end -}}

{{/* Whether `helm uninstall` takes labels off namespaces: text if so. It takes a validating entry. */}}
{{- define "pillion.unlabels" -}}
{{- include "pillion.validates" . -}}
{{- end -}}

{{/* The name of the ConfigMap that says that the release is being removed. */}}
{{- define "pillion.uninstallMarker" -}}
{{ include "pillion.fullname" . }}-uninstall
{{- end -}}

{{/* The namespace of the pod of `helm test`. */}}
{{- define "pillion.testNamespace" -}}
{{- if .Values.test.namespace }}{{ .Values.test.namespace }}{{ else if include "pillion.proves" . }}{{ include "pillion.proofNamespace" . }}{{ else }}default{{ end -}}
{{- end -}}

{{/* The arguments of `pillion serve`. */}}
{{- define "pillion.args" -}}
- --listen=:8443
- --admin-listen=:8080
- --service={{ include "pillion.fullname" . }}
{{ include "pillion.certificateArgs" . | trim }}
- --annotation-prefix={{ .Values.annotationPrefix }}
- --excluded-namespaces={{ join "," (default list .Values.excludedNamespaces) }}
- --foreign-sidecars={{ join "," (default list .Values.foreignSidecars) }}
- --cluster-templates={{ .Values.clusterTemplates }}
{{- if include "pillion.mirrors" . }}
- --mirror-policy={{ include "pillion.mirrorPolicy" . }}
- --mirror-revision={{ include "pillion.mirrorRevision" . }}
{{- end }}
- --webhook-scope={{ .Values.webhook.scope }}
- --owner-events={{ not .Values.rbac.hardened }}
- --keep-required-label={{ .Values.webhook.required.enabled }}
{{- if include "pillion.unlabels" . }}
- --uninstall-marker={{ include "pillion.uninstallMarker" . }}
{{- end }}
- --enforcement={{ .Values.enforcement.mode }}
{{- if include "pillion.proves" . }}
- --proof-namespace={{ include "pillion.proofNamespace" . }}
{{- with .Values.enforcement.takeBackAfter }}
- --take-back-after={{ . }}
{{- end }}
{{- end }}
- --in-use-record={{ include "pillion.inUseRecord" . }}
{{- with .Values.allowMissingTemplates }}
- --allow-missing-templates={{ join "," . }}
{{- end }}
- --read-workloads={{ if include "pillion.readsWorkloads" . }}true{{ else }}false{{ end }}
{{- if .Values.webhook.clientCA }}
- --client-ca-file=/etc/pillion/client-ca/ca.crt
{{- with .Values.webhook.clientNames }}
- --client-names={{ join "," . }}
{{- end }}
{{- else if .Values.webhook.clientNames }}
{{- fail "webhook.clientNames: names mean something with webhook.clientCA only, which signs the certificates that carry them" }}
{{- end }}
{{- with .Values.library }}
- --library={{ join "," . }}
{{- end }}
{{- if .Values.templates }}
- --templates=/etc/pillion/templates
{{- end }}
{{- if .Values.values }}
- --values=/etc/pillion/values/values.yaml
{{- end }}
- --preview={{ .Values.preview.enabled }}
- --preview-limits={{ if include "pillion.readsLimits" . }}true{{ else }}false{{ end }}
- --count-pods-every={{ ternary .Values.coverage.every "0s" (and .Values.coverage.enabled (not .Values.rbac.hardened)) }}
- --log-level={{ .Values.log.level }}
- --log-format={{ .Values.log.format }}
- --review-timeout={{ max .Values.webhook.requested.timeoutSeconds .Values.webhook.enforced.timeoutSeconds .Values.webhook.templates.timeoutSeconds }}s
- --shutdown-delay={{ .Values.shutdown.delaySeconds }}s
- --shutdown-timeout={{ .Values.shutdown.timeoutSeconds }}s
{{- end -}}

{{/* Your own arguments. One that the chart gives as well would go before it, unchecked. */}}
{{- define "pillion.extraArgs" -}}
{{- $own := list -}}
{{- range include "pillion.args" . | fromYamlArray -}}
{{- $own = append $own (splitList "=" . | first) -}}
{{- end -}}
{{- range .Values.extraArgs -}}
{{- $flag := splitList "=" . | first -}}
{{- if has $flag $own -}}
{{- fail (printf "extraArgs: %s: the chart gives %s itself; set the value that it is made of" . $flag) -}}
{{- end }}
- {{ . | quote }}
{{- end -}}
{{- end -}}

{{/* The files of the templates ConfigMap. */}}
{{- define "pillion.templateFiles" -}}
{{- $group := .Values.annotationPrefix -}}
{{- range $name, $template := .Values.templates }}
{{ $name }}.yaml: |
{{- if kindIs "string" $template }}
{{ $template | trim | indent 2 }}
{{- else if hasKey $template "kind" }}
{{ toYaml $template | indent 2 }}
{{- else }}
  apiVersion: {{ $group }}/v1alpha1
  kind: SidecarTemplate
  metadata:
    name: {{ $name }}
  spec:
{{ toYaml $template | indent 4 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* In CEL: whether the key k is Pillion's. */}}
{{- define "pillion.ownKey" -}}
(k.startsWith('{{ . }}/') || k.contains('.{{ . }}/'))
{{- end -}}

{{/* In CEL: the labels and annotations of an object and of its pod template, as optionals. */}}
{{- define "pillion.previewedMaps" -}}
[{{ . }}.metadata.?labels, {{ . }}.metadata.?annotations,
      {{ . }}.?spec.template.metadata.labels, {{ . }}.?spec.template.metadata.annotations,
      {{ . }}.?spec.jobTemplate.spec.template.metadata.labels, {{ . }}.?spec.jobTemplate.spec.template.metadata.annotations]
{{- end -}}

{{/* The schema of a label selector. */}}
{{- define "pillion.labelSelectorSchema" -}}
type: object
x-kubernetes-map-type: atomic
properties:
  matchLabels:
    description: Labels that must all be there with these values.
    type: object
    additionalProperties: {type: string}
  matchExpressions:
    description: Requirements that must all be met.
    type: array
    x-kubernetes-list-type: atomic
    items:
      type: object
      required: [key, operator]
      properties:
        key: {type: string, description: The label that the requirement is about.}
        operator: {type: string, description: In, NotIn, Exists or DoesNotExist., enum: [In, NotIn, Exists, DoesNotExist]}
        values:
          description: The values of In and NotIn; absent for Exists and DoesNotExist.
          type: array
          x-kubernetes-list-type: atomic
          items: {type: string}
{{- end -}}

{{/* The schema of the constraints of a parameter, or of its items. */}}
{{- define "pillion.constraintsSchema" -}}
enum:
  description: The values that are allowed.
  type: array
  x-kubernetes-list-type: atomic
  items: {x-kubernetes-preserve-unknown-fields: true}
pattern:
  description: A regular expression (RE2) that the whole value must match. For string and image.
  type: string
minimum:
  description: The least value. For integer, number, quantity and duration.
  x-kubernetes-preserve-unknown-fields: true
maximum:
  description: The greatest value. For integer, number, quantity and duration.
  x-kubernetes-preserve-unknown-fields: true
maxLength:
  description: The greatest length in code points. For string, image and json.
  type: integer
  format: int64
  minimum: 0
{{- end -}}
