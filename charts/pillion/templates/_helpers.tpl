{{/*
Puts the chart's default in the place of each value that is not there. With `helm upgrade
--reuse-values` the values are those of the chart that was installed, which knew fewer of them. Of
resources, labels and the security context, what is not there was taken away.
*/}}
{{- define "pillion.values" -}}
{{- include "pillion.fill" (list .Values (.Files.Get "files/defaults.yaml" | fromYaml)) -}}
{{- end -}}
{{- define "pillion.fill" -}}
{{- $values := first . -}}
{{- range $key, $default := last . -}}
{{- if kindIs "invalid" (index $values $key) -}}
{{- $_ := set $values $key $default -}}
{{- else if and (kindIs "map" $default) (not (has $key (list "resources" "labels" "podSecurityContext"))) -}}
{{- include "pillion.fill" (list (index $values $key) $default) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
The name of the release's objects in its namespace. At most 55 characters, which
leaves room for a suffix such as -metrics: names of Services are DNS labels.
*/}}
{{- define "pillion.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 55 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 55 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 55 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "pillion.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "pillion.labels" -}}
{{ include "pillion.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{- range $key, $_ := . }}
{{- if hasPrefix "pillion.dev/" $key }}
{{- fail (printf "commonLabels: %s: labels under pillion.dev steer Pillion, and the chart sets them itself; take this one out" $key) }}
{{- end }}
{{- end }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The same for an object with labels of its own, which go before commonLabels. */}}
{{- define "pillion.labelsWith" -}}
{{- merge dict (default dict (last .)) (include "pillion.labels" (first .) | fromYaml) | toYaml -}}
{{- end -}}

{{/*
The labels of objects by which API servers know Pillion. Nothing in them but the caBundle changes
at run time, so `pillion check` names a command that replaces those that somebody changed.
*/}}
{{- define "pillion.registrationLabels" -}}
{{ include "pillion.labels" . }}
app.kubernetes.io/component: registration
{{- end -}}

{{/* The image of Pillion's pods. A registry for all charts takes the place of the repository's own,
     which is its first part if that has a dot or a port, or is localhost. */}}
{{- define "pillion.image" -}}
{{- $repository := .Values.image.repository -}}
{{- with get (default dict .Values.global) "imageRegistry" -}}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) (regexReplaceAll "^(localhost|[^/]*[.:][^/]*)/" $repository "") -}}
{{- end -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{/* The Secrets to pull the image with, as JSON. A global one may be a name alone, as in other charts. */}}
{{- define "pillion.imagePullSecrets" -}}
{{- $secrets := default list .Values.imagePullSecrets -}}
{{- range get (default dict .Values.global) "imagePullSecrets" -}}
{{- $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) -}}
{{- end -}}
{{- uniq $secrets | toJson -}}
{{- end -}}

{{/*
What templates read as `values`, as JSON. templateValues.global goes before the chart's own globals.
Secrets are names there.
*/}}
{{- define "pillion.templateValues" -}}
{{- $global := dict -}}
{{- with get (default dict .Values.global) "imageRegistry" -}}
{{- $_ := set $global "imageRegistry" . -}}
{{- end -}}
{{- range get (default dict .Values.global) "imagePullSecrets" -}}
{{- $name := kindIs "string" . | ternary . (get (kindIs "map" . | ternary . dict) "name") -}}
{{- $_ := set $global "imagePullSecrets" (append (default list (get $global "imagePullSecrets")) $name) -}}
{{- end -}}
{{- $values := deepCopy (default dict .Values.templateValues) -}}
{{- with $global -}}
{{- $values = merge $values (dict "global" .) -}}
{{- end -}}
{{- toJson $values -}}
{{- end -}}

{{/* Where Pillion's pods run, and as whom. */}}
{{- define "pillion.podSettings" -}}
{{- with include "pillion.imagePullSecrets" . | fromJsonArray }}
imagePullSecrets:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .Values.hostNetwork }}
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}

{{/* Fails where two listeners would have one port. */}}
{{- define "pillion.checkPorts" -}}
{{- if eq (int .Values.webhook.port) (int .Values.adminPort) -}}
{{- fail (printf "webhook.port and adminPort are both %d: set one of them to another port" (int .Values.adminPort)) -}}
{{- end -}}
{{- if and .Values.hostNetwork (get (default dict .Values.podSecurityContext) "runAsNonRoot") (lt (min (int .Values.webhook.port) (int .Values.adminPort)) 1024) -}}
{{- fail "hostNetwork=true: only root may listen at ports below 1024 of a node: set webhook.port and adminPort to ports that are free on every node, such as 10260 and 10261" -}}
{{- end -}}
{{- if and .Values.hostNetwork (has 10250 (list (int .Values.webhook.port) (int .Values.adminPort))) -}}
{{- fail "hostNetwork=true: port 10250 of a node is its kubelet's: set webhook.port and adminPort to ports that are free on every node, such as 10260 and 10261" -}}
{{- end -}}
{{- end -}}

{{/* Pillion's service account, as the API server names its user. */}}
{{- define "pillion.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "pillion.fullname" . }}
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
{{- if ne .Values.enforcement "None" -}}
{{- if has (include "pillion.proofNamespace" .) (include "pillion.excludedNamespaces" . | fromJsonArray) -}}
{{- fail (printf "excludedNamespaces has %s, where Pillion proves that it works; take it out, or set enforcement=None" (include "pillion.proofNamespace" .)) -}}
{{- end -}}
yes
{{- end -}}
{{- end -}}

{{/* The namespace of the pods by which Pillion proves that it works. */}}
{{- define "pillion.proofNamespace" -}}
{{- printf "%s-proof" (.Release.Namespace | trunc 57 | trimSuffix "-") -}}
{{- end -}}

{{/* The name of the ConfigMap that says that the release is being removed. */}}
{{- define "pillion.uninstallMarker" -}}
{{ include "pillion.fullname" . }}-uninstall
{{- end -}}

{{/* The settings of the server. Commands read them, too. */}}
{{- define "pillion.settings" -}}
{{- include "pillion.checkPorts" . -}}
{{- if and .Values.webhook.clientNames (not .Values.webhook.clientCA) -}}
{{- fail "webhook.clientNames: names mean something with webhook.clientCA only, which signs the certificates that carry them" -}}
{{- end -}}
server:
  namespace: {{ .Release.Namespace | quote }}
  service: {{ include "pillion.fullname" . | quote }}
  serviceAccount: {{ include "pillion.fullname" . | quote }}
  listen: ":{{ .Values.webhook.port }}"
  adminListen: ":{{ .Values.adminPort }}"
  {{- with ((.Values.resources).limits).memory }}
  memoryLimit: {{ . | quote }}
  {{- end }}
  logLevel: {{ .Values.log.level }}
  logFormat: json
  shutdownDelay: {{ .Values.shutdown.delaySeconds }}s
  shutdownTimeout: 20s
reviews:
  timeout: {{ .Values.webhook.timeoutSeconds }}s
  scope: {{ .Values.webhook.scope }}
  clientCA: {{ .Values.webhook.clientCA | trim | quote }}
  clientNames: {{ default list .Values.webhook.clientNames | toJson }}
templates:
  values: {{ include "pillion.templateValues" . | quote }}
  foreignSidecars: {{ default list .Values.foreignSidecars | toJson }}
  namespaced: {{ .Values.namespacedTemplates.enabled }}
namespaces:
  excluded: {{ include "pillion.excludedNamespaces" . }}
  enforcement: {{ .Values.enforcement }}
  {{- if include "pillion.proves" . }}
  proof: {{ include "pillion.proofNamespace" . }}
  {{- end }}
  uninstallMarker: {{ include "pillion.uninstallMarker" . }}
pods:
  ownerEvents: {{ not .Values.rbac.hardened }}
  readWorkloads: {{ if include "pillion.readsWorkloads" . }}true{{ else }}false{{ end }}
  countEvery: {{ ternary .Values.coverage.every "0s" (not (empty (include "pillion.countsPods" .))) }}
certificates:
  {{- include "pillion.certificateSettings" . | trim | nindent 2 }}
{{- end -}}

{{/* Whether Pillion reads the workloads of a namespace that is annotated: text if so. */}}
{{- define "pillion.readsWorkloads" -}}
{{- if and .Values.rbac.readWorkloads (not .Values.rbac.hardened) }}yes{{ end -}}
{{- end -}}

{{/* Whether Pillion counts running pods: text if so. No duration but 0s is made of zeros. */}}
{{- define "pillion.countsPods" -}}
{{- if and (regexMatch "[1-9]" .Values.coverage.every) (not .Values.rbac.hardened) }}yes{{ end -}}
{{- end -}}

{{/* What a label selector requires, as JSON: its labels first, by their keys. */}}
{{- define "pillion.requirements" -}}
{{- $all := list -}}
{{- $selector := default dict . -}}
{{- range $key, $value := $selector.matchLabels -}}
{{- $all = append $all (dict "key" $key "operator" "In" "values" (list $value)) -}}
{{- end -}}
{{- concat $all (default list $selector.matchExpressions) | toJson -}}
{{- end -}}

{{/* In CEL: whether labels meet a label selector; nothing for one that requires nothing. */}}
{{- define "pillion.selected" -}}
{{- $labels := .labels -}}
{{- $selected := list -}}
{{- range include "pillion.requirements" .selector | fromJsonArray -}}
{{- $label := printf "%s[?%s]" $labels (toJson .key) -}}
{{- $among := printf "%s.optMap(v, v in %s).orValue(false)" $label (toJson .values) -}}
{{- $selected = append $selected (get (dict "In" $among "NotIn" (printf "!%s" $among) "Exists" (printf "%s.hasValue()" $label) "DoesNotExist" (printf "!%s.hasValue()" $label)) .operator) -}}
{{- end -}}
{{- join " && " $selected -}}
{{- end -}}

{{/*
In CEL: the labels and annotations of an object and of its pod template, as optionals. An API server
goes through a map in the square of its size, so that 30,000 labels take 6 s: those of more than 500
are left out, and nobody is told what such an object will meet.
*/}}
{{- define "pillion.previewedMaps" -}}
[{{ . }}.metadata.?labels, {{ . }}.metadata.?annotations,
      {{ . }}.?spec.template.metadata.labels, {{ . }}.?spec.template.metadata.annotations,
      {{ . }}.?spec.jobTemplate.spec.template.metadata.labels, {{ . }}.?spec.jobTemplate.spec.template.metadata.annotations].filter(m, size(m.orValue({})) <= 500)
{{- end -}}

{{/* In CEL: the annotations of an object and of its pods, as optionals. */}}
{{- define "pillion.askingMaps" -}}
[{{ . }}.metadata.?annotations, {{ . }}.?spec.template.metadata.annotations, {{ . }}.?spec.jobTemplate.spec.template.metadata.annotations]
{{- end -}}

{{/*
A regular expression of prefixes that look like this one: with a letter of the first part wrong,
missing or too many, with two letters the other way round, or under another top-level domain.
*/}}
{{- define "pillion.nearPrefix" -}}
{{- $parts := splitList "." . -}}
{{- $name := first $parts -}}
{{- $near := list -}}
{{- range $i := until (len $name) -}}
{{- $head := substr 0 $i $name -}}
{{- $near = append $near (printf "%s[a-z0-9-]?%s" $head (substr (int (add1 $i)) (len $name) $name)) -}}
{{- $near = append $near (printf "%s[a-z0-9-]%s" $head (substr $i (len $name) $name)) -}}
{{- if gt $i 0 -}}
{{- $near = append $near (printf "%s%s%s%s" (substr 0 (int (sub $i 1)) $name) (substr $i (int (add1 $i)) $name) (substr (int (sub $i 1)) $i $name) (substr (int (add1 $i)) (len $name) $name)) -}}
{{- end -}}
{{- end -}}
^(?:{{ join "|" $near }}|{{ $name }}[a-z0-9-])(?:[.](?:{{ rest $parts | join "[.]" }}|[a-z]{2,6}))?
{{- end -}}

{{/*
In CEL, for two versions of a webhook configuration, named by a list: whether all that somebody
owns in the first, but for caBundles, the same owns in the second.
*/}}
{{- define "pillion.sameOwners" -}}
{{- $b := printf "%s.metadata.?managedFields.orValue([])" (last .) -}}
{{ first . }}.metadata.?managedFields.orValue([]).all(m,
        {{ $b }}.exists(n, [n.?manager, n.?operation, n.?subresource, n.?fieldsV1] == [m.?manager, m.?operation, m.?subresource, m.?fieldsV1]) ||
        m.?fieldsV1.orValue({}).all(k, k == 'f:webhooks' && m.fieldsV1[k].all(w, m.fieldsV1[k][w].all(f, f == 'f:clientConfig' && m.fieldsV1[k][w][f].all(g, g == 'f:caBundle')))) ||
        {{ $b }}.exists(n, [n.?manager, n.?operation, n.?subresource] == [m.?manager, m.?operation, m.?subresource] &&
          m.?fieldsV1.orValue({}).all(k, k != 'f:webhooks' ? n.?fieldsV1[?k] == optional.of(m.fieldsV1[k]) :
            m.fieldsV1[k].all(w, m.fieldsV1[k][w].all(f, f != 'f:clientConfig' ? n.?fieldsV1[?k][?w][?f] == optional.of(m.fieldsV1[k][w][f]) :
              m.fieldsV1[k][w][f].all(g, g == 'f:caBundle' || n.?fieldsV1[?k][?w][?f][?g].hasValue()))))))
{{- end -}}

{{/*
In CEL: whether the owner m of fields of a namespace is the owner b, and owns no more than it but
for fewer labels.
*/}}
{{- define "pillion.ownsNoMore" -}}
[m.?manager, m.?operation, m.?subresource] == [b.?manager, b.?operation, b.?subresource] && (m.?fieldsV1 == b.?fieldsV1 ||
        m.?fieldsV1.orValue({}).all(k, k != 'f:metadata' ? b.?fieldsV1[?k] == optional.of(m.fieldsV1[k]) :
          m.fieldsV1[k].all(l, l != 'f:labels' ? b.?fieldsV1[?k][?l] == optional.of(m.fieldsV1[k][l]) :
            m.fieldsV1[k][l].all(f, b.?fieldsV1[?k][?l][?f].hasValue()))))
{{- end -}}

{{- /*
A selector of objects that people write, and of Jobs and their pods: only the controllers of Deployments,
StatefulSets and DaemonSets give these labels to pods and ReplicaSets.
API servers compare labels at once. For a condition they convert the object first, a tenth of the
time that a pod's creation takes, in each namespace of the cluster.
*/ -}}
{{- define "pillion.notOfControllers" -}}
matchExpressions:
- {key: pod-template-hash, operator: DoesNotExist}
- {key: controller-revision-hash, operator: DoesNotExist}
{{- end }}
