// Package dashboard tests the chart's Grafana dashboard without a Grafana: every field is one that
// Grafana's own types have, and every query is of metrics, labels and values that a replica has.
//
// In: charts/pillion/files/dashboard.json and docs/reference/{metrics,replica-metrics}.md. Out: nothing, it has tests alone. It
// imports Grafana's Foundation SDK. TestTheDashboardTellsWhatIsBrokenFromWhatIsUnknown runs the queries.
package dashboard
