SELECT {message} FROM messages /*! FORCE INDEX (PRIMARY) */
WHERE {keys shard int2, queue int8, number int8} AND rank_no IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
