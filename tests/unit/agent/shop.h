#ifndef RIDDLE_TESTS_AGENT_SHOP_H
#define RIDDLE_TESTS_AGENT_SHOP_H

/* A catalog of one small table, fed as a sandbox would answer. */

#include "data/catalog.h"

json_t *json_of(const char *text); /* with ' for "; fails the test if it is no JSON */
struct catalog *catalog_of_sales(void);
/* The next query's answer; the catalog must take it. */
void feed_catalog(struct catalog *c, const char *body);

#define SALES_SHAPE                                                                                                                             \
    "{'columns':['sale_id','city','amount','sold_at','returned','count'],'types':['BIGINT','VARCHAR','DOUBLE','TIMESTAMP','BOOLEAN','BIGINT']," \
    "'rows':[[1,'Paris',10.5,'2024-01-01T10:00:00',false,4],[2,'Rome',20.0,'2024-02-01T10:00:00',true,4]],'row_count':2,'truncated':false}"
#define SALES_FACTS                                                                                                             \
    "{'columns':['c','k','v','w','x','n'],'types':['INTEGER','INTEGER','VARCHAR','VARCHAR','VARCHAR','BIGINT'],'rows':["        \
    "[0,1,'1','4','2.5',4],[1,1,null,null,null,3],[2,1,'10.5','nan','20.25',4],"                                                \
    "[3,1,'2024-01-01 10:00:00','2024-12-31 09:00:00',null,4],[4,1,null,null,null,4],"                                          \
    "[0,2,'1',null,null,1],[0,2,'2',null,null,1],[1,2,'Paris',null,null,2],[1,2,'Rome',null,null,1],[4,2,'false',null,null,3]," \
    "[4,2,'true',null,null,1]],'row_count':11,'truncated':false}"

#endif
