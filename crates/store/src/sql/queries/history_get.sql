SELECT history.body, dead_letters.run FROM history /*! FORCE INDEX (PRIMARY) */
LEFT JOIN dead_letters ON dead_letters.run = history.id
WHERE {keys history.id int8}
