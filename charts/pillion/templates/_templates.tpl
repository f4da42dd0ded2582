{{/*
The SidecarTemplates of the release, by name, as YAML: those of library/ that `library` names, and those of
`templates`, with parameterDefaults.
*/}}
{{- define "pillion.sidecarTemplates" -}}
{{- $all := dict -}}
{{- range $name := .Values.library -}}
{{- $text := $.Files.Get (printf "library/%s.yaml" $name) -}}
{{- if not $text -}}
{{- $names := list -}}
{{- range $path, $_ := $.Files.Glob "library/*.yaml" -}}
{{- $names = append $names (base $path | trimSuffix ".yaml") -}}
{{- end -}}
{{- fail (printf "library: there is no template %s; it has %s" $name (sortAlpha $names | join ", ")) -}}
{{- end -}}
{{- $template := fromYaml $text -}}
{{- include "pillion.setRegistry" (list $template (get (default dict $.Values.global) "imageRegistry")) -}}
{{- $_ := set $all $name $template -}}
{{- end -}}
{{- range $name, $value := .Values.templates -}}
{{- if hasKey $all $name -}}
{{- fail (printf "templates.%s: library names a template of this name; take it out of one of the two, or choose another name" $name) -}}
{{- end -}}
{{- $_ := set $all $name (include "pillion.ownTemplate" (list $name $value) | fromYaml) -}}
{{- end -}}
{{- range $name, $defaults := .Values.parameterDefaults -}}
{{- if not (hasKey $all $name) -}}
{{- fail (printf "parameterDefaults.%s: neither library nor templates has a template of this name; they have %s" $name (keys $all | sortAlpha | join ", " | default "none")) -}}
{{- end -}}
{{- include "pillion.setDefaults" (list $name (get $all $name) $defaults) -}}
{{- end -}}
{{- if and (hasKey $all "pillion-proof") (include "pillion.proves" .) -}}
{{- fail "templates.pillion-proof: the name belongs to a template of Pillion's own, by which it proves that it works; choose another name" -}}
{{- end -}}
{{- toYaml $all -}}
{{- end -}}

{{/* The manifest of a template of the values, which is a map or a text, as YAML. */}}
{{- define "pillion.ownTemplate" -}}
{{- $name := first . -}}
{{- $object := last . -}}
{{- if kindIs "string" $object -}}
{{- $documents := list -}}
{{- range regexSplit "(?m)^---(?:[ \\t].*)?$" $object -1 -}}
{{- if regexReplaceAll "(?m)^\\s*#.*$" . "" | trim -}}
{{- $documents = append $documents . -}}
{{- end -}}
{{- end -}}
{{- if ne (len $documents) 1 -}}
{{- fail (printf "templates.%s: the text has %d documents, and a template is one" $name (len $documents)) -}}
{{- end -}}
{{- $object = fromYaml (first $documents) -}}
{{- if and (hasKey $object "Error") (not (hasKey $object "kind")) (not (hasKey $object "inject")) -}}
{{- fail (printf "templates.%s: reading the text: %s" $name $object.Error) -}}
{{- end -}}
{{- end -}}
{{- if not (kindIs "map" $object) -}}
{{- fail (printf "templates.%s: it must be the spec of a SidecarTemplate, or a whole manifest; it is a %s" $name (kindOf $object)) -}}
{{- end -}}
{{- if not (hasKey $object "kind") -}}
{{- $object = dict "apiVersion" "pillion.dev/v1alpha1" "kind" "SidecarTemplate" "metadata" (dict "name" $name) "spec" $object -}}
{{- end -}}
{{- if or (ne (toString $object.kind) "SidecarTemplate") (ne (get $object "apiVersion" | toString) "pillion.dev/v1alpha1") -}}
{{- fail (printf "templates.%s: it is a %v of %v, and must be a SidecarTemplate of pillion.dev/v1alpha1" $name $object.kind (get $object "apiVersion" | default "no apiVersion")) -}}
{{- end -}}
{{- if not (kindIs "map" (get $object "spec")) -}}
{{- fail (printf "templates.%s: it has no spec" $name) -}}
{{- end -}}
{{- $is := dig "metadata" "name" "" $object | toString -}}
{{- if ne $is $name -}}
{{- fail (printf "templates.%s: its metadata.name is %q, and must be the key %s" $name $is $name) -}}
{{- end -}}
{{- if hasKey $object.spec "suspend" -}}
{{- fail (printf "templates.%s.spec.suspend: the chart never renders it, so that an upgrade changes nothing of what was suspended by hand. Take it out, and suspend by hand: kubectl patch sidecartemplate %s --type=merge -p '{\"spec\":{\"suspend\":true}}'" $name $name) -}}
{{- end -}}
{{- toYaml $object -}}
{{- end -}}

{{/* Puts a registry in the place of the one of each default image of a template. */}}
{{- define "pillion.setRegistry" -}}
{{- $registry := last . -}}
{{- if $registry -}}
{{- range (first .).spec.parameters -}}
{{- if and (eq .type "image") (kindIs "string" (get . "default")) -}}
{{- $_ := set . "default" (printf "%s/%s" (trimSuffix "/" $registry) (regexReplaceAll "^(localhost|[^/]*[.:][^/]*)/" .default "")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Writes defaults into the parameters of a template. A default of the type map is merged by key. */}}
{{- define "pillion.setDefaults" -}}
{{- $name := index . 0 -}}
{{- $defaults := index . 2 -}}
{{- $parameters := dict -}}
{{- range dig "spec" "parameters" list (index . 1) -}}
{{- $_ := set $parameters (get . "name") . -}}
{{- end -}}
{{- range $parameter, $value := $defaults -}}
{{- if not (hasKey $parameters $parameter) -}}
{{- fail (printf "parameterDefaults.%s.%s: the template has no such parameter; it has %s" $name $parameter (keys $parameters | sortAlpha | join ", " | default "none")) -}}
{{- end -}}
{{- $declared := get $parameters $parameter -}}
{{- if and (eq $declared.type "map") (kindIs "map" $value) (kindIs "map" (get $declared "default")) -}}
{{- $value = merge dict $value $declared.default -}}
{{- end -}}
{{- $_ := set $declared "default" $value -}}
{{- end -}}
{{- end -}}

{{/* Fails where the CRDs of the cluster are older than the chart's. Without a cluster, nothing is known of them. */}}
{{- define "pillion.checkDefinitions" -}}
{{- if lookup "v1" "Namespace" "" "kube-system" -}}
{{- range $path, $_ := .Files.Glob "crds/*.yaml" -}}
{{- $want := $.Files.Get $path | fromYaml -}}
{{- $is := dig "metadata" "annotations" "pillion.dev/crd-revision" "0" (lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $want.metadata.name) -}}
{{- $revision := get $want.metadata.annotations "pillion.dev/crd-revision" -}}
{{- if lt (atoi $is) (atoi $revision) -}}
{{- fail (printf "the CustomResourceDefinition %s is %s, and this chart needs revision %s. Nothing was changed. Helm does not upgrade CRDs; this command does, and then run yours again: helm show crds CHART | kubectl apply --server-side --force-conflicts --field-manager=helm -f -" $want.metadata.name (eq $is "0" | ternary "missing, or has no revision" (printf "of revision %s" $is)) $revision) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Fails where an upgrade would delete templates of the release that are in use: pods that name them would be
refused, and pods would go without a required one. The guard refuses the same, which Helm 3 passes over.
*/}}
{{- define "pillion.checkDropped" -}}
{{- $templates := .templates -}}
{{- $release := .root.Release -}}
{{- $dropped := dict -}}
{{- range dig "items" list (lookup "pillion.dev/v1alpha1" "SidecarTemplate" "" "") -}}
{{- $annotations := dig "metadata" "annotations" dict . -}}
{{- $ours := and (eq (dig "meta.helm.sh/release-name" "" $annotations) $release.Name) (eq (dig "meta.helm.sh/release-namespace" "" $annotations) $release.Namespace) -}}
{{- if and $ours (not (hasKey $templates .metadata.name)) (eq (dig "pillion.dev/allow-delete" "false" $annotations) "false") -}}
{{- $_ := set $dropped .metadata.name . -}}
{{- end -}}
{{- end -}}
{{- if $dropped -}}
{{- $named := dict -}}
{{- range dig "items" list (lookup "v1" "Namespace" "" "") -}}
{{- $out := or (has .metadata.name (include "pillion.excludedNamespaces" $.root | fromJsonArray)) (eq (dig "metadata" "labels" "pillion.dev/injection" "" .) "disabled") -}}
{{- $inject := dig "metadata" "annotations" "pillion.dev/inject" "" . -}}
{{- if and $inject (not $out) -}}
{{- $namespace := .metadata.name -}}
{{- range splitList "," $inject -}}
{{- $_ := set $named (trim .) (append (default list (get $named (trim .))) $namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name, $object := $dropped -}}
{{- $why := list -}}
{{- if dig "spec" "required" false $object -}}
{{- $why = append $why "it is required (spec.required), and pods would go without it" -}}
{{- end -}}
{{- with get $named $name -}}
{{- $why = append $why (printf "named by pillion.dev/inject %s, whose pods would be refused" (include "pillion.inNamespaces" .)) -}}
{{- end -}}
{{- if dig "spec" "injectByDefault" false $object -}}
{{- with get $named "true" -}}
{{- $why = append $why (printf "part of what pillion.dev/inject: \"true\" means %s, whose pods would go without it" (include "pillion.inNamespaces" .)) -}}
{{- end -}}
{{- end -}}
{{- if $why -}}
{{- fail (printf "%s. Nothing was changed. To keep it, leave it in library or templates: --reset-then-reuse-values keeps the values of the last upgrade" (include "pillion.inUse" (list $name (join "; " $why)))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A few namespaces, in words. */}}
{{- define "pillion.inNamespaces" -}}
{{- $names := sortAlpha . -}}
{{- if eq (len $names) 1 -}}
in the namespace {{ first $names }}
{{- else if le (len $names) 10 -}}
in the namespaces {{ join ", " $names }}
{{- else -}}
in the namespaces {{ slice $names 0 10 | join ", " }} and {{ sub (len $names) 10 }} more
{{- end -}}
{{- end -}}

{{/* The guard's sentence about a template that is in use. */}}
{{- define "pillion.inUse" -}}
the SidecarTemplate {{ first . }} is in use: {{ last . }}. To have it injected nowhere, and no pod refused: kubectl patch sidecartemplate {{ first . }} --type=merge -p '{"spec":{"suspend":true}}'. To delete it nevertheless: kubectl annotate sidecartemplate {{ first . }} pillion.dev/allow-delete=true
{{- end -}}
