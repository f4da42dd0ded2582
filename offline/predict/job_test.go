package predict_test

import (
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/offline/predict"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// A Job waits for every ordinary container of its pod, and a sidecar does not end with the work.
func TestAJobThatASidecarKeepsFromFinishingIsForetold(t *testing.T) {
	const (
		of     = `metadata: {ownerReferences: [{apiVersion: batch/v1, kind: Job, name: report, uid: '1', controller: true}]}, `
		app    = `containers: [{name: report, image: 'r:1'}`
		proxy  = `{name: proxy, image: 'p:1'}`
		native = `initContainers: [{name: proxy, image: 'p:1', restartPolicy: Always}]`
	)
	says := "the Job finishes only when the container proxy ends, too, and a sidecar does not end with the work; without the sidecars it would finish. " +
		"It comes from the template proxy: its author can make it a native sidecar (spec.initContainers, restartPolicy: Always), or keep it from Jobs by a matchCondition"
	for name, c := range map[string]struct{ before, after, want string }{
		"ordinary":        {of + "spec: {restartPolicy: Never, " + app + "]}", of + "spec: {restartPolicy: Never, " + app + ", " + proxy + "]}", says},
		"on failure":      {of + "spec: {restartPolicy: OnFailure, " + app + "]}", of + "spec: {restartPolicy: OnFailure, " + app + ", " + proxy + "]}", says},
		"native":          {of + "spec: {restartPolicy: Never, " + app + "]}", of + "spec: {restartPolicy: Never, " + app + "], " + native + "}", ""},
		"of no Job":       {"spec: {restartPolicy: Never, " + app + "]}", "spec: {restartPolicy: Never, " + app + ", " + proxy + "]}", ""},
		"the app's own":   {of + "spec: {restartPolicy: Never, " + app + ", " + proxy + "]}", of + "spec: {restartPolicy: Never, " + app + ", " + proxy + "]}", ""},
		"an owner's list": {`metadata: {ownerReferences: [{apiVersion: example.com/v1, kind: Job, name: report, uid: '1', controller: true}]}, spec: {restartPolicy: Never, ` + app + "]}", `metadata: {ownerReferences: [{apiVersion: example.com/v1, kind: Job, name: report, uid: '1', controller: true}]}, spec: {restartPolicy: Never, ` + app + ", " + proxy + "]}", ""},
	} {
		text := strings.Replace(sidecar, "initContainers: [{name: proxy, image: 'p:1', restartPolicy: Always,", "containers: [{name: proxy, image: 'p:1',", 1)
		tmpl := templatestest.Compile(t, text)
		var got []string
		for _, trouble := range predict.Troubles(predict.Input{Before: pod(t, "{"+c.before+"}"), After: pod(t, "{"+c.after+"}"), Injected: []*templates.Template{tmpl}}) {
			if trouble.Refused || trouble.Source != predict.Job {
				t.Errorf("%s: %+v", name, trouble)
			}
			got = append(got, trouble.String())
		}
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
