SELECT {job} FROM jobs /*! FORCE INDEX (jobs_with_calendar) */
WHERE calendars IS NOT NULL /*! AND with_calendar = 1 */ AND namespace = $1 AND name > $2
    AND strpos(calendars, $4) > 0
ORDER BY name LIMIT $3
