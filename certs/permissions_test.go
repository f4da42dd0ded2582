package certs

import "testing"

func TestPermissionsNameVerbResourceObjectAndTheChartsValue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		list []permission
		want string
	}{
		{secretPermissions("ns", "ca", "certs.provider=self-signed", "create"),
			`create secrets in namespace ns (the chart grants it with certs.provider=self-signed)`},
		{secretPermissions("ns", "ca", "certs.provider=self-signed", "get"),
			`get secrets ca in namespace ns (the chart grants it with certs.provider=self-signed)`},
		{configurationPermissions([]WebhookConfiguration{{Mutating, "x"}}, "certs.provider=files", "list"),
			`list mutatingwebhookconfigurations.admissionregistration.k8s.io x (the chart grants it with webhook.name=x and certs.provider=files)`},
		{configurationPermissions([]WebhookConfiguration{{Validating, "x"}, {Mutating, "x"}}, "certs.provider=files", "list"),
			`list validatingwebhookconfigurations.admissionregistration.k8s.io x (the chart grants it with webhook.name=x and certs.provider=files)`},
	} {
		if got := c.list[0].String(); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}
