package main

import "time"

// slots is how many parts of five minutes a day has.
const slots = 24 * 12

// turns are hours of a day, and how many pods are made then as a part of the forenoon's.
var turns = []struct{ hour, pods float64 }{{0, 0.2}, {6, 0.2}, {9, 1}, {12, 1}, {12.5, 0.6}, {13.5, 1}, {17, 1}, {19, 0.4}, {24, 0.2}}

// weight is how many pods a slot has, as a part of one of the forenoon's. CronJobs run at the hour,
// and in the evening there is a deploy.
func weight(slot int) float64 {
	hour := float64(slot) / 12
	var w float64
	for i := 1; i < len(turns); i++ {
		if a, b := turns[i-1], turns[i]; hour >= a.hour && hour < b.hour {
			w = a.pods + (b.pods-a.pods)*(hour-a.hour)/(b.hour-a.hour)
		}
	}
	if slot%12 == 0 {
		w += 2
	}
	if hour >= 20 && hour < 20.5 {
		w += 4
	}
	return w
}

// moments are when each of the pods is due in a day that takes so long.
func moments(pods int, day time.Duration) []time.Duration {
	total := 0.0
	for slot := range slots {
		total += weight(slot)
	}
	var due []time.Duration
	before := 0.0 // how many pods are due before a slot
	for slot := range slots {
		share := weight(slot) / total * float64(pods)
		for at := float64(len(due)) + 0.5; at < before+share; at++ {
			due = append(due, time.Duration((float64(slot)+(at-before)/share)/slots*float64(day)))
		}
		before += share
	}
	return due
}
