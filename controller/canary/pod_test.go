package canary

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/rawjson"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// byWall is a replica that has seen every state from its beginning.
func byWall(now time.Time) seenFor {
	return func(_ string, since time.Time) time.Duration { return now.Sub(since) }
}

func ago(d time.Duration) string { return now.Add(-d).Format(time.RFC3339) }

const sidecar = `{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: side}, spec: {inject: {spec: {initContainers: [{name: side, restartPolicy: Always, image: "side:1"}]}}}}`

// podOf decodes a pod with a record that says that the containers side and app are Pillion's work.
func podOf(t testing.TB, recorded, status string) map[string]any {
	t.Helper()
	text := fmt.Sprintf(`{"metadata":{"annotations":{"pillion.dev/status":%q}},"spec":{"initContainers":[{"name":"side"},{"name":"other"}],"containers":[{"name":"app"}]},"status":%s}`, recorded, status)
	v, err := rawjson.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v.(map[string]any)
}

const recorded = `{"v":1,"templates":{"side":"0a1b"},"pod":{"spec":{"containers":{"name=app":{"env":{"name=A":"0a1b2c3d"}}},"initContainers":{"name=other":{"$added":true},"name=side":{"$added":true}}}}}`

func TestAContainerOfTheTemplateFailsByWhatTheKubeletSaysOfIt(t *testing.T) {
	side := func(status string) string {
		return `{"phase":"Running","startTime":"` + ago(time.Hour) + `","conditions":[{"type":"ContainersReady","status":"False","lastTransitionTime":"` + ago(30*time.Minute) + `"}],"initContainerStatuses":[{"name":"side",` + status + `}]}`
	}
	ended := func(code int, d time.Duration) string {
		return fmt.Sprintf(`"lastState":{"terminated":{"exitCode":%d,"reason":"Error","finishedAt":%q}}`, code, ago(d))
	}
	waits := func(reason string) string { return `"ready":false,"state":{"waiting":{"reason":"` + reason + `"}}` }
	for name, c := range map[string]struct{ status, reason, says string }{
		"it is ready":                           {side(`"ready":true,"restartCount":0,"state":{"running":{"startedAt":"` + ago(time.Hour) + `"}}`), "", ""},
		"it restarted twice":                    {side(`"ready":true,"restartCount":2,` + ended(1, time.Minute)), "", ""},
		"it restarted three times":              {side(`"ready":true,"restartCount":3,` + ended(1, time.Minute)), ContainersRestart, "the container side restarted 3 times (exit code 1)"},
		"it is killed for its memory":           {side(strings.Replace(waits("CrashLoopBackOff")+`,"restartCount":4,`+ended(137, time.Minute), `"Error"`, `"OOMKilled"`, 1)), ContainersRestart, "the container side restarted 4 times (OOMKilled, exit code 137)"},
		"it restarted long ago":                 {side(`"ready":true,"restartCount":9,` + ended(1, 2*time.Hour)), "", ""},
		"its image is not there":                {side(waits("ImagePullBackOff")), ContainersNotReady, "the container side is not ready (ImagePullBackOff)"},
		"its image is not there for a while":    {strings.Replace(side(waits("ImagePullBackOff")), ago(30*time.Minute), ago(4*time.Minute), 1), "", ""},
		"its image is not there, in a new pod":  {strings.Replace(side(waits("ImagePullBackOff")), ago(time.Hour), ago(time.Minute), 1), "", ""},
		"an init container ended a moment ago":  {strings.Replace(side(waits("ImagePullBackOff")), `"initContainerStatuses":[`, `"initContainerStatuses":[{"name":"migrate","ready":true,"state":{"terminated":{"exitCode":0,"finishedAt":"`+ago(time.Minute)+`"}}},`, 1), "", ""},
		"others keep it waiting":                {side(waits("PodInitializing")), "", ""},
		"its probe fails":                       {side(`"ready":false,"state":{"running":{"startedAt":"` + ago(6*time.Minute) + `"}}`), ContainersNotReady, "the container side is not ready"},
		"it starts":                             {side(`"ready":false,"state":{"running":{"startedAt":"` + ago(4*time.Minute) + `"}}`), "", ""},
		"it has done its work":                  {side(`"ready":false,"state":{"terminated":{"exitCode":0,"finishedAt":"` + ago(time.Hour) + `"}}`), "", ""},
		"it has ended badly":                    {side(`"ready":false,"state":{"terminated":{"exitCode":2,"finishedAt":"` + ago(time.Hour) + `"}}`), ContainersNotReady, "the container side is not ready (exit code 2)"},
		"no node has room":                      {`{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","lastTransitionTime":"` + ago(6*time.Minute) + `"}]}`, ContainersNotReady, "its pods cannot be scheduled"},
		"no node has room for a while":          {`{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","lastTransitionTime":"` + ago(time.Minute) + `"}]}`, "", ""},
		"a gate holds it":                       {`{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"SchedulingGated","lastTransitionTime":"` + ago(time.Hour) + `"}]}`, "", ""},
		"the app fails":                         {strings.Replace(side(`"ready":false,"restartCount":9,`+ended(1, time.Minute)), `"initContainerStatuses":[{"name":"side"`, `"containerStatuses":[{"name":"app"`, 1), "", ""},
		"another template's container fails":    {strings.Replace(side(`"ready":false,"restartCount":9,`+ended(1, time.Minute)), `"name":"side"`, `"name":"other"`, 1), "", ""},
		"a container of its name in other list": {strings.Replace(side(`"ready":false,"restartCount":9,`+ended(1, time.Minute)), `"initContainerStatuses"`, `"containerStatuses"`, 1), "", ""},
	} {
		pod := podOf(t, recorded, c.status)
		rec, err := record.Parse(pod, "pillion.dev/status")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := DefaultRules.failure(pod, rec, templatestest.Compile(t, sidecar).AddedContainers(), now, byWall(now)), (Failure{c.reason, c.says}); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	// A template that adds no container is judged by those that it changes.
	pod := podOf(t, recorded, `{"containerStatuses":[{"name":"app","restartCount":3,`+ended(1, time.Minute)+`}]}`)
	rec, _ := record.Parse(pod, "pillion.dev/status")
	if f := DefaultRules.failure(pod, rec, nil, now, byWall(now)); f.Reason != ContainersRestart {
		t.Errorf("%+v", f)
	}
	// A container of the sidecar's name that Pillion did not add is the pod's own.
	rec, _ = record.Parse(podOf(t, `{"v":1,"templates":{"side":"0a1b"}}`, `{}`), "pillion.dev/status")
	if f := DefaultRules.failure(podOf(t, recorded, side(`"ready":false,"restartCount":9,`+ended(1, time.Minute))), rec, templatestest.Compile(t, sidecar).AddedContainers(), now, byWall(now)); f != (Failure{}) {
		t.Errorf("%+v", f)
	}
}

// A status of any shape is read without a panic.
func FuzzStatus(f *testing.F) {
	f.Add(`{"startTime":1,"conditions":[1,{"type":"PodScheduled"}],"initContainerStatuses":[null,{"name":"side","restartCount":1e9,"state":{"waiting":1},"lastState":[]}]}`)
	f.Add(`{"containerStatuses":{"name":"side"},"initContainerStatuses":[{"name":"side","restartCount":"3","ready":"no","state":{"terminated":{"exitCode":null}}}]}`)
	added := templatestest.Compile(f, sidecar).AddedContainers()
	f.Fuzz(func(t *testing.T, status string) {
		if !json.Valid([]byte(status)) || len(status) > 4<<10 {
			return
		}
		pod := podOf(t, recorded, status)
		rec, _ := record.Parse(pod, "pillion.dev/status")
		ended(pod)
		if f := DefaultRules.failure(pod, rec, added, now.Add(time.Hour), byWall(now.Add(time.Hour))); (f.Reason == "") != (f.Says == "") {
			t.Errorf("%+v", f)
		}
	})
}
