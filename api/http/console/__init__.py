"""Console: web pages for operators below /console/, and the data that only they request, below /console/api/.

The pages are files of this package (`pages/`), served as they are: no build, no request to another host. Their data
comes from these handlers and from the endpoints of the other rooms; changes go to those alone, and are refused
unless the broker allows them (`change_policy`). Lists are filtered and paged here (`paging`). `app` registers the
handlers unless the console is off."""
