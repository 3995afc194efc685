"""Console: web pages for operators below /console/, and the data that only they request, below /console/api/.

The pages are files of this package (`pages/`), served as they are: no build, no request to another host. Their data
comes from these handlers and from the other HTTP endpoints. Pages request changes only from the other endpoints, which
refuse them unless the broker allows changes by the console (`change_policy`). Lists are filtered and paged here
(`paging`). `app` registers the handlers unless the console is off."""
