// Package dashboard tests the chart's Grafana dashboard without a Grafana: every field is one that
// Grafana's own types have.
//
// In: charts/pillion/files/dashboard.json. Out: nothing, it has tests alone. It imports Grafana's
// Foundation SDK. That the panels' queries have answers is tested by TestNoPanelOfTheDashboardIsEmpty,
// which needs a Pillion that has something to do.
package dashboard
