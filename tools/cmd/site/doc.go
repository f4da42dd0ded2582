// Command site makes a web site of the Markdown of the documentation, and checks every link in it.
//
// In: the Markdown of the repository, and page.html, style.css and search.js of this folder. Out: a
// folder with a page for each file, the pictures, and an index for the search. All links are
// relative, and nothing is loaded from elsewhere, so the site works from a disk too.
//
// It imports goldmark, which is CommonMark with GitHub's tables. Hugo takes 170 s of processor time to
// compile, against 16 s, and would need templates and a search of our own all the same. Only `make docs`
// and the tests run this program.
package main
