// Package image tells references to container images from other text.
//
// In: text. Out: whether it is a reference, as container runtimes have them. It imports
// nothing of this module.
package image
