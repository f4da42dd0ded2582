package ground

import (
	"slices"
	"testing"
)

func TestARunningGroundWillDoUnlessAnotherOneIsAskedFor(t *testing.T) {
	chosen, err := Options{Helm: "4"}.Chosen(KindNode)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := chosen.String(), "node, Kubernetes 1.37, Helm 4"; got != want {
		t.Errorf("it is %q, want %q", got, want)
	}
	for _, c := range []struct {
		asked Options
		want  []string
	}{
		{Options{}, nil},
		{Options{Kind: KindNode, Kubernetes: "1.37", Helm: "4"}, nil},
		{Options{Kind: KindControlPlane}, []string{"GROUND=controlplane"}},
		{Options{Kind: KindNode, Kubernetes: "1.35", Helm: "3"}, []string{"K8S=1.35", "HELM=3"}},
		{Options{Kind: "nowhere"}, []string{"GROUND=nowhere"}},
	} {
		if got := c.asked.Differ(chosen); !slices.Equal(got, c.want) {
			t.Errorf("%+v differs by %q, want %q", c.asked, got, c.want)
		}
	}
	if _, err := (Options{Kubernetes: "1.7"}).Chosen(KindNode); err == nil {
		t.Error("a Kubernetes that there is none of is chosen")
	}
}
