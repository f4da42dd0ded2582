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
	var until [slots + 1]float64 // how much of the day's weight is before a slot
	for slot := range slots {
		until[slot+1] = until[slot] + weight(slot)
	}
	due, slot := make([]time.Duration, pods), 0
	for i := range due {
		at := (float64(i) + 0.5) / float64(pods) * until[slots]
		for until[slot+1] <= at {
			slot++
		}
		due[i] = time.Duration((float64(slot) + (at-until[slot])/weight(slot)) / slots * float64(day))
	}
	return due
}
