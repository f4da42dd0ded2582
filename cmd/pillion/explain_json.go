package main

import (
	"encoding/json"
	"io"

	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/offline/predict"
	"github.com/pillion-dev/pillion/templates"
)

// explainedPod is one pod of explain -o json.
type explainedPod struct {
	// Pod names the object that holds the pod, as KIND/NAME.
	Pod       string      `json:"pod"`
	Namespace string      `json:"namespace"`
	Verdict   string      `json:"verdict"`
	Code      reason.Code `json:"code"`
	// Refused: the pod does not come to be, by Pillion's refusal or by one of the troubles.
	Refused   bool                `json:"refused"`
	Message   string              `json:"message,omitempty"`
	Templates []explainedTemplate `json:"templates"`
	Rules     []explainedRule     `json:"rules"`
	Warnings  []string            `json:"warnings"`
	// Troubles are what refuses the pod after its injection.
	Troubles []predict.Trouble `json:"troubles"`
	Notes    []string          `json:"notes"`
}

// explainedTemplate is the outcome for one template.
type explainedTemplate struct {
	Name    string                      `json:"name"`
	Hash    string                      `json:"hash,omitempty"`
	Code    reason.Code                 `json:"code"`
	Why     string                      `json:"why,omitempty"`
	Params  map[string]any              `json:"params,omitempty"`
	Origins map[string]templates.Origin `json:"origins,omitempty"`
}

// explainedRule is one step of the decision.
type explainedRule struct {
	Rule   string `json:"rule"`
	Input  string `json:"input"`
	Result string `json:"result"`
}

// object returns the explanation for machines: all templates, and each text as a whole.
func (e explanation) object() explainedPod {
	p := explainedPod{
		Pod: e.pod.Owner, Namespace: e.namespace, Verdict: e.verdict(), Code: e.out.Code, Refused: e.out.refused(), Message: e.out.Message,
		Templates: []explainedTemplate{}, Rules: []explainedRule{}, Warnings: append([]string{}, e.out.Warnings...),
		Troubles: append([]predict.Trouble{}, e.out.troubles...), Notes: append([]string{}, e.notes()...),
	}
	for _, t := range e.out.Templates {
		p.Templates = append(p.Templates, explainedTemplate{Name: t.Name, Hash: t.Hash, Code: t.Code, Why: t.Why, Params: t.Params, Origins: t.Origins})
	}
	steps, _ := e.steps()
	for _, s := range steps {
		p.Rules = append(p.Rules, explainedRule{Rule: s.Rule, Input: s.Input, Result: s.Result})
	}
	return p
}

func writeExplained(w io.Writer, pods []explainedPod) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(map[string]any{"pods": pods})
}
