// Package kept decides which labels Pillion keeps on a namespace.
//
// In: the templates in force, and a namespace's name, labels and annotations, and which of
// the labels somebody set by hand. Out: the labels that have to change, in a write of
// somebody else's ([Judgement.InWrite], for the webhook) or because they are not what they
// should be ([Judgement.Differences], for injector/keeper).
//
// All is pure: no clock, no client. Imports: templates, injector/policy, the API's types. A further label is
// one more [Label] in the list that [New] takes.
package kept
