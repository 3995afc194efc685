"""`raftlog transaction …`: transactional ids and their open transactions."""
