// Package cases runs the cases that a template ships beside it: a pod and its
// namespace, and the wanted pod or the reason why the pod is refused.
//
// In: templates with the files they were read from, and options. Out: one
// [Result] for each case. With [Options.Update] it also writes the files of the
// cases that fail, in the folders of the cases and nowhere else.
//
// The cases of a template NAME are the folders of testdata/NAME beside its file:
//
//	pod.yaml           the pod that is created
//	namespace.yaml     its namespace. Without it: one that asks for the template
//	values.yaml        the installer's values. Without it: [Options.Compile]'s
//	want.yaml          the resulting pod, without Pillion's status annotation
//	want-error.txt     or else: why the pod is refused. The reason code on the
//	                   first line; each line after it is a part of the message
//	want-warnings.txt  a part of each warning, one a line. Without it: no warnings
//
// A pod goes through the pipeline that the webhook runs, twice: the second time
// nothing may change. A case loads its own template and the others that its
// annotations name, so it does not depend on the other files of the folder.
//
// May import: injector, injector/workload, templates. No network, no clock.
package cases
