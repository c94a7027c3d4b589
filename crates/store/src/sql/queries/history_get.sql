SELECT history.body, dead_letters.run FROM history /*! FORCE INDEX (PRIMARY) */
LEFT JOIN dead_letters ON dead_letters.run = history.place
WHERE {keys history.place int8}
