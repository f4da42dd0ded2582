// Package cases runs the cases that a template ships beside it: a pod and its
// namespace, and the pod that is wanted or the reason it is refused for.
//
// In: templates with the files they were read from, and options. Out: one
// [Result] for each case. With [Options.Update] also files with the result, which
// are written nowhere but in the folders of the cases.
//
// The cases of a template NAME are the folders of testdata/NAME beside its file:
//
//	pod.yaml           the pod that is created
//	namespace.yaml     its namespace. Without it: one that asks for the template
//	values.yaml        the installer's values. Without it: [Options.Compile]'s
//	want.yaml          the resulting pod, without Pillion's status annotation
//	want-error.txt     or else: why it is refused. The reason code on the first
//	                   line; each line after it is a text that the message holds
//	want-warnings.txt  a text for each warning, which the warning holds. Without
//	                   it: no warnings
//
// A pod goes through the pipeline that the webhook runs, twice: the second time
// nothing may change. A case loads its own template and the others that its
// annotations name, so that it does not depend on the other files of the folder.
//
// Imports: injector, offline/workload and templates. No network, no clock.
package cases
