#ifndef RIDDLE_TESTS_AGENT_SHOP_H
#define RIDDLE_TESTS_AGENT_SHOP_H

/* A catalog of one small table, of the record of a scan that is fed as a sandbox would answer. */

#include "data/catalog.h"
#include "data/scan.h"

json_t *json_of(const char *text); /* with ' for "; fails the test if it is no JSON */
struct catalog *catalog_of_sales(void);
/* The next query's answer; the scan must take it. */
void feed_scan(struct table_scan *s, const char *body);
/* What a scan of this table finds out when these are the answers to its queries. */
json_t *scan_of(const char *table, enum plan_dialect dialect, const char *const *answers, size_t n,
                json_t **ret_values);

#define SALES_SHAPE                                                                                                                             \
    "{'columns':['sale_id','city','amount','sold_at','returned','count'],'types':['BIGINT','VARCHAR','DOUBLE','TIMESTAMP','BOOLEAN','BIGINT']," \
    "'rows':[[1,'Paris',10.5,'2024-01-01T10:00:00',false,4],[2,'Rome',20.0,'2024-02-01T10:00:00',true,4]],'row_count':2,'truncated':false}"
#define SALES_FIGURES                                                                                      \
    "{'rows':[[4,4,'1','4','2.5',3,2,'Paris','Rome',null,4,4,'10.5','nan','20.25',4,4,"                    \
    "'2024-01-01 10:00:00','2024-12-31 09:00:00',null,4,2,'false','true',null]]}"
#define SALES_VALUES                                                                                       \
    "{'rows':[[0,1,'1',1],[0,1,'2',1],[0,2,'0',3],[0,2,'11',1],[1,1,'Paris',2],[1,1,'Rome',1],"            \
    "[4,1,'false',3],[4,1,'true',1]]}"

#endif
